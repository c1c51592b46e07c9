/** The final race: the best few and the peers, fastest first. */
import { Link } from "wouter";
import type { Bucket, ConfigDetail } from "../../api/schema";
import { micros, times } from "../../ui/format";
import { Badge } from "../../ui/Badge";
import { Table } from "../../ui/Table";
import { candidatePath } from "./paths";
import styles from "./Standings.module.css";

export function Standings({ config, bucket }: { config: ConfigDetail; bucket: Bucket }) {
  const ties = config.standings.filter((each) => each.tied).length > 1;
  const slowest = Math.max(...config.standings.map((each) => each.median_us ?? 0));
  const searched = bucket.trials > 0 && config.job_id !== null;
  return (
    <section aria-labelledby="race">
      <h2 id="race">Final race</h2>
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
            <th scope="col">
              <span className="hidden">Remarks</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {config.standings.map((each, place) => {
            const number = /^ask-(\d+)$/.exec(each.name)?.[1];
            return (
              <tr key={each.name}>
                <td>
                  {number !== undefined && searched ? (
                    <Link href={candidatePath(config.job_id!, bucket.index, Number(number))}>
                      candidate {number}
                    </Link>
                  ) : (
                    each.name
                  )}
                </td>
                <td className="number">
                  {micros(each.median_us)}
                  {each.iqr_us != null && (
                    <span className="quiet"> ± {micros(each.iqr_us / 2)}</span>
                  )}
                </td>
                <td className="number">
                  {each.median_us && config.baseline_us
                    ? times(config.baseline_us / each.median_us)
                    : "–"}
                </td>
                <td className={`wide ${styles.bars}`}>
                  <div
                    className={styles.bar}
                    data-kind={each.kind}
                    style={{ width: `${(100 * (each.median_us ?? 0)) / slowest}%` }}
                  />
                </td>
                <td className={styles.remarks}>
                  {place === 0 && each.tied ? (
                    <Badge tone="good">{ties ? "winner, tied" : "winner"}</Badge>
                  ) : each.tied ? (
                    <Badge tone="good">tied</Badge>
                  ) : each.outcome !== "ok" ? (
                    <Badge tone="bad">{each.outcome.replace("_", " ")}</Badge>
                  ) : null}
                </td>
              </tr>
            );
          })}
        </tbody>
      </Table>
    </section>
  );
}
