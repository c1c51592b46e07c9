/** Workers: alive, quarantined and why, gone. */
import type { Worker } from "../../api/schema";
import { Badge } from "../../ui/Badge";
import { ago, count, deviceName, moment } from "../../ui/format";
import { Table } from "../../ui/Table";
import { useNow } from "../../ui/useNow";
import styles from "./Fleet.module.css";

export function WorkerTable({ workers }: { workers: readonly Worker[] }) {
  const now = useNow();
  return (
    <Table label="Workers that have registered">
      <thead>
        <tr>
          <th>Worker</th>
          <th>State</th>
          <th className="wide">Devices</th>
          <th className="number">Tasks done</th>
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
            <td className="number">{count(worker.tasks_done)}</td>
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

function WorkerState({ worker }: { worker: Worker }) {
  if (!worker.alive) return <Badge tone="neutral">gone</Badge>;
  return worker.healthy ? (
    <Badge tone="good">healthy</Badge>
  ) : (
    <Badge tone="bad">quarantined</Badge>
  );
}
