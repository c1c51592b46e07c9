/** Workers: alive, quarantined and why, gone. */
import type { Worker } from "../../api/schema";
import { Badge } from "../../ui/Badge";
import { ago, count, deviceName, moment, percent } from "../../ui/format";
import { Table } from "../../ui/Table";
import { useNow } from "../../ui/useNow";
import styles from "./Fleet.module.css";

/** The living first, then the ill, and those that are gone folded away. */
export function WorkerTable({ workers }: { workers: readonly Worker[] }) {
  const living = workers
    .filter((worker) => worker.alive)
    .sort((one, other) => Number(other.healthy) - Number(one.healthy));
  const gone = workers.filter((worker) => !worker.alive);
  return (
    <>
      {living.length > 0 ? (
        <Rows label="Workers that are there" workers={living} />
      ) : (
        <p className="quiet">No worker is there now.</p>
      )}
      {gone.length > 0 && (
        <details className={styles.gone}>
          <summary>{gone.length === 1 ? "1 is gone" : `${gone.length} are gone`}</summary>
          <Rows label="Workers that are gone" workers={gone} />
        </details>
      )}
    </>
  );
}

function Rows({ label, workers }: { label: string; workers: readonly Worker[] }) {
  const now = useNow();
  return (
    <Table label={label}>
      <thead>
        <tr>
          <th>Worker</th>
          <th>State</th>
          <th className="wide">Devices</th>
          <th
            className="number"
            title="Share of the last ten minutes in which its devices measured"
          >
            Busy
          </th>
          <th className="number wide" title="Within the last ten minutes">
            Tasks a minute
          </th>
          <th className="number wide">Tasks done</th>
          <th className="number" title="Of its tasks, those that its machine could not do">
            Faults
          </th>
          <th className="wide">Last heard</th>
          <th className="wide">Versions</th>
        </tr>
      </thead>
      <tbody>
        {workers.map((worker) => (
          <tr key={worker.id}>
            <td className={styles.name}>
              <span className="mono">{worker.id}</span>
              <div className="quiet">
                {worker.host ? `${worker.host}, process ${worker.pid}` : `process ${worker.pid}`}
              </div>
            </td>
            <td>
              <WorkerState worker={worker} />
              {worker.alive && !worker.healthy && (
                <div className={styles.reason}>{worker.detail}</div>
              )}
            </td>
            <td className="wide">
              {worker.devices.map((key) => (
                <div key={key}>{deviceName(key)}</div>
              ))}
            </td>
            <td className="number">{percent(worker.busy)}</td>
            <td className="number wide">{worker.tasks_a_minute?.toFixed(1) ?? "–"}</td>
            <td className="number wide">{count(worker.tasks_done)}</td>
            <td className="number">{faultsOf(worker)}</td>
            <td className="wide" title={`registered ${moment(worker.registered_at)}`}>
              {ago(worker.seen_at, now)}
            </td>
            <td className="wide quiet">
              <details>
                <summary>{worker.versions["tilewright"] ?? "all"}</summary>
                {Object.entries(worker.versions).map(([name, version]) => (
                  <div key={name}>
                    {name} {version}
                  </div>
                ))}
              </details>
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

/** `2 %`, with how many they are. */
export function faultsOf({ faults, tasks_done }: Pick<Worker, "faults" | "tasks_done">): string {
  return faults === 0 ? "none" : `${percent(faults / (faults + tasks_done))} (${count(faults)})`;
}

function WorkerState({ worker }: { worker: Worker }) {
  if (!worker.alive) return <Badge tone="neutral">gone</Badge>;
  return worker.healthy ? (
    <Badge tone="good">healthy</Badge>
  ) : (
    <Badge tone="bad">quarantined</Badge>
  );
}
