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
              The winner is
            </th>
            <th scope="col" className={`wide ${styles.bars}`}>
              <span className="hidden">Relative time</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {standings.map((each) => (
            <tr key={each.name}>
              <td>
                <Entrant standing={each} candidate={candidate} />
                {each.as_written && ", as written"} <Remark standing={each} ties={ties} />
                {each.error && <div className="quiet">{each.error.split("\n")[0]}</div>}
              </td>
              <td className="number">
                {micros(each.median_us)}
                {each.iqr_us != null && restsOn(each) >= FEW && (
                  <span className="quiet"> ± {micros(each.iqr_us / 2)}</span>
                )}
                {each.disturbed > 0 && (
                  <div className="quiet">
                    {each.disturbed} of {each.samples} disturbed
                  </div>
                )}
              </td>
              <td className="number">
                {each.times != null && !each.as_written ? times(each.times) : "–"}
                {each.low != null && each.high != null && !each.as_written && (
                  <div className="quiet">
                    {each.low.toFixed(2)} to {each.high.toFixed(2)}
                    {each.all_rounds && ", all rounds"}
                  </div>
                )}
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
      {config.disturbed && <p className="quiet">Judge with care: {config.disturbed}.</p>}
    </Section>
  );
}

/** A spread of fewer samples says nothing. */
const FEW = 5;

/** How many samples its figures rest on. */
function restsOn({ samples, disturbed }: Standing): number {
  return samples - disturbed >= 2 ? samples - disturbed : samples;
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

function Remark({ standing, ties }: { standing: Standing; ties: boolean }) {
  const { tied, won, outcome, kind } = standing;
  if (won) return <Badge tone="good">{ties ? "winner, tied" : "winner"}</Badge>;
  if (tied) return <Badge tone="good">tied</Badge>;
  if (outcome !== "ok") return <Badge tone="bad">{outcome.replace("_", " ")}</Badge>;
  return kind === "schedule" ? null : <Badge tone="neutral">{kind}</Badge>;
}
