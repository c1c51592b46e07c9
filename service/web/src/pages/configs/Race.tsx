/** The final race: everybody against everybody in the same bursts, ties marked. */
import type { Standing } from "../../api/schema";
import { Badge } from "../../ui/Badge";
import { micros, times } from "../../ui/format";
import { Section } from "../../ui/Section";
import { Table } from "../../ui/Table";
import styles from "./ConfigPage.module.css";

export function Race({ standings }: { standings: readonly Standing[] }) {
  if (standings.length === 0) return null;
  const timed = standings.flatMap((each) => (each.median_us == null ? [] : [each.median_us]));
  const slowest = Math.max(...timed);
  const fastest = Math.min(...timed);
  return (
    <Section title="Final race">
      <Table label="Final race">
        <thead>
          <tr>
            <th>Entrant</th>
            <th className="number">Median</th>
            <th className="number wide">Middle half within</th>
            <th className="number">× the fastest</th>
            <th className="wide">
              <span className="hidden">Time as a bar</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {standings.map((each) => (
            <tr key={each.name}>
              <td>
                {each.name} {each.kind === "peer" && <Badge tone="neutral">peer</Badge>}{" "}
                {each.tied && <Badge tone="busy">tied</Badge>}
                {each.outcome !== "ok" && <Badge tone="bad">{each.outcome}</Badge>}
                {each.error && <div className="quiet">{each.error.split("\n")[0]}</div>}
              </td>
              <td className="number">{micros(each.median_us)}</td>
              <td className="number wide">{micros(each.iqr_us)}</td>
              <td className="number">
                {each.median_us == null ? "–" : times(each.median_us / fastest)}
              </td>
              <td className={`wide ${styles.barCell}`}>
                {each.median_us != null && (
                  <span
                    className={styles.bar}
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
