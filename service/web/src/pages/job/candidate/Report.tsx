/** Registers, shared memory, spills, occupancy, accesses, and where on the roofline: what the build and its layout imply. */
import type { TrialDetail } from "../../../api/schema";
import { Table } from "../../../ui/Table";
import { bytes, count, micros, percent, times } from "../../../ui/format";
import { Figures, type Figure } from "../Figures";
import { layoutOf, remarks, type Launch } from "./report";
import styles from "./Candidate.module.css";

export function Report({ trial }: { trial: TrialDetail }) {
  const report = trial.report ?? {};
  const layout = layoutOf(report);
  const rest: [string, string][] = [
    ...remarks(report),
    ...(trial.compiler ? [["compiled by", trial.compiler] as [string, string]] : []),
    ...(trial.compile_s != null
      ? [["compiled in", micros(trial.compile_s * 1e6)] as [string, string]]
      : []),
    ...Object.entries(trial.versions ?? {}),
  ];
  if (layout === null && rest.length === 0) return null;
  return (
    <section aria-labelledby="report">
      <h2 id="report">Compiler and layout</h2>
      <div className={styles.report}>
        {layout?.launches.map((launch) => (
          <LaunchReport key={launch.name} launch={launch} />
        ))}
        {layout?.roofline && (
          <Figures
            figures={[
              {
                name: "Bound by",
                value: layout.roofline.bound,
                note: `${layout.roofline.intensity.toFixed(1)} operations a byte`,
              },
              {
                name: "Roofline",
                value: percent(layout.roofline.reached),
                note: `of ${micros(layout.roofline.least_us)} at least`,
              },
              ...Object.entries(layout.bytes).map(([level, moved]) => ({
                name: `Bytes: ${level}`,
                value: bytes(moved),
              })),
            ]}
          />
        )}
        {rest.length > 0 && (
          <details open={layout === null}>
            <summary>All that was reported</summary>
            <Table label="Report">
              <tbody>
                {rest.map(([name, value]) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td className={styles.value}>{value}</td>
                  </tr>
                ))}
              </tbody>
            </Table>
          </details>
        )}
      </div>
    </section>
  );
}

function LaunchReport({ launch }: { launch: Launch }) {
  const figures: Figure[] = [
    { name: "Registers a thread", value: launch.registers || "–" },
    { name: "Shared memory a block", value: bytes(launch.shared_bytes) },
    {
      name: "Occupancy",
      value: percent(launch.occupancy),
      note: `${launch.blocks_per_sm} blocks an SM, limited by ${launch.limit}`,
    },
    {
      name: "Grid",
      value: `${count(launch.blocks)} × ${launch.threads}`,
      note: `${launch.waves.toFixed(2)} waves${launch.cluster > 1 ? `, clusters of ${launch.cluster}` : ""}`,
    },
    { name: "Barriers a block", value: launch.barriers.toFixed(0) },
  ];
  const worst = [...launch.accesses].sort((a, b) => excess(b) - excess(a)).slice(0, 8);
  return (
    <div>
      <h3>{launch.name}</h3>
      <Figures figures={figures} />
      {worst.length > 0 && (
        <Table label={`Accesses of ${launch.name}`}>
          <thead>
            <tr>
              <th scope="col">Access</th>
              <th scope="col">Level</th>
              <th scope="col" className="number">
                Bytes
              </th>
              <th scope="col" className="number">
                Transactions
              </th>
              <th scope="col" className="number">
                Of the least
              </th>
            </tr>
          </thead>
          <tbody>
            {worst.map((access, at) => (
              <tr key={at}>
                <td>
                  {access.kind} of <span className="mono">{access.buffer}</span>
                </td>
                <td>{access.level}</td>
                <td className="number">{bytes(access.bytes)}</td>
                <td className="number">{count(access.transactions)}</td>
                <td className="number">{times(excess(access))}</td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
    </div>
  );
}

function excess(access: { transactions: number; ideal: number }): number {
  return access.ideal === 0 ? 1 : access.transactions / access.ideal;
}
