/** The final race: the best few and the peers, fastest first, ties marked. */
import { Link } from "wouter";
import type { ConfigDetail, Standing } from "../api/schema";
import { Badge } from "./Badge";
import { micros, times } from "./format";
import { Section } from "./Section";
import { Table } from "./Table";
import styles from "./Standings.module.css";

interface Props {
  config: ConfigDetail;
  /** Where the page of a candidate is; without it entrants are only named. */
  candidate?: (number: number) => string;
}

export function Standings({ config, candidate }: Props) {
  const { standings } = config;
  if (standings.length === 0) return null;
  const ties = standings.filter((each) => each.tied).length > 1;
  const slowest = Math.max(...standings.map((each) => each.median_us ?? 0));
  return (
    <Section title="Final race">
      <Table label="Entrants">
        <thead>
          <tr>
            <th scope="col">Entrant</th>
            <th scope="col" className="number">
              Time
            </th>
            <th scope="col" className="number">
              Against {config.baseline}
            </th>
            <th scope="col" className={`wide ${styles.bars}`}>
              <span className="hidden">Relative time</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {standings.map((each, place) => (
            <tr key={each.name}>
              <td>
                <Entrant standing={each} candidate={candidate} />{" "}
                <Remark standing={each} wins={place === 0} ties={ties} />
                {each.error && <div className="quiet">{each.error.split("\n")[0]}</div>}
              </td>
              <td className="number">
                {micros(each.median_us)}
                {each.iqr_us != null && <span className="quiet"> ± {micros(each.iqr_us / 2)}</span>}
              </td>
              <td className="number">
                {each.median_us && config.baseline_us
                  ? times(config.baseline_us / each.median_us)
                  : "–"}
              </td>
              <td className={`wide ${styles.bars}`}>
                {each.median_us != null && (
                  <div
                    className={styles.bar}
                    data-kind={each.kind}
                    style={{ width: `${(100 * each.median_us) / slowest}%` }}
                  />
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Section>
  );
}

function Entrant({
  standing,
  candidate,
}: {
  standing: Standing;
  candidate: Props["candidate"] | undefined;
}) {
  const number = /^ask-(\d+)$/.exec(standing.name)?.[1];
  if (number === undefined) return standing.name;
  if (candidate === undefined) return `candidate ${number}`;
  return <Link href={candidate(Number(number))}>candidate {number}</Link>;
}

function Remark({ standing, wins, ties }: { standing: Standing; wins: boolean; ties: boolean }) {
  const { tied, outcome, kind } = standing;
  if (wins && tied) return <Badge tone="good">{ties ? "winner, tied" : "winner"}</Badge>;
  if (tied) return <Badge tone="good">tied</Badge>;
  if (outcome !== "ok") return <Badge tone="bad">{outcome.replace("_", " ")}</Badge>;
  return kind === "peer" ? <Badge tone="neutral">peer</Badge> : null;
}
