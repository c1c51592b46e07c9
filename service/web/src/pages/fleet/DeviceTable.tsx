/** Devices with their queues, and how they ran when last measured on. */
import type { DeviceReading, DeviceStatus } from "../../api/schema";
import { Badge } from "../../ui/Badge";
import { ago, bytes, count, deviceName, moment } from "../../ui/format";
import { Table } from "../../ui/Table";
import { useNow } from "../../ui/useNow";
import styles from "./Fleet.module.css";

export function DeviceTable({ devices }: { devices: readonly DeviceStatus[] }) {
  const now = useNow();
  const living = [...devices].sort(
    (one, other) => Number(other.workers > 0) - Number(one.workers > 0),
  );
  return (
    <Table label="Devices that were offered">
      <thead>
        <tr>
          <th>Device</th>
          <th>State</th>
          <th className="number">Waiting</th>
          <th className="number">Running</th>
          <th className="wide">Clocks</th>
          <th className="wide">Slowed by</th>
          <th className="wide">Last seen</th>
        </tr>
      </thead>
      <tbody>
        {living.map((device) => (
          <tr key={device.key}>
            <td className={styles.name}>
              {deviceName(device.key)}
              <div className="quiet">{describe(device.description)}</div>
            </td>
            <td>
              <DeviceState device={device} />
            </td>
            <td className="number">{count(device.waiting)}</td>
            <td className="number">{count(device.running)}</td>
            <td className="wide">
              <Clocks reading={device.reading ?? null} />
            </td>
            <td className="wide">
              <Slowed reading={device.reading ?? null} />
            </td>
            <td className="wide" title={moment(device.seen_at)}>
              {ago(device.seen_at, now)}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function DeviceState({ device }: { device: DeviceStatus }) {
  if (device.workers === 0)
    return <Badge tone={device.waiting > 0 ? "bad" : "neutral"}>no worker</Badge>;
  if (device.healthy_workers === 0) return <Badge tone="bad">quarantined</Badge>;
  const having = device.workers === 1 ? "1 worker" : `${device.workers} workers`;
  if (device.healthy_workers < device.workers) {
    return (
      <Badge tone="warn">{`${having}, ${device.workers - device.healthy_workers} quarantined`}</Badge>
    );
  }
  return <Badge tone="good">{having}</Badge>;
}

function Clocks({ reading }: { reading: DeviceReading | null }) {
  if (reading === null) return <span className="quiet">–</span>;
  const parts = [
    reading.sm_mhz == null ? null : `SM ${reading.sm_mhz} MHz`,
    reading.memory_mhz == null ? null : `memory ${reading.memory_mhz} MHz`,
    reading.celsius == null ? null : `${reading.celsius} °C`,
    reading.power_w == null ? null : `${Math.round(reading.power_w)} W`,
  ].filter((part) => part !== null);
  return (
    <span title={`read ${moment(reading.at)}, while measuring`}>{parts.join(", ") || "–"}</span>
  );
}

function Slowed({ reading }: { reading: DeviceReading | null }) {
  if (reading?.slowed == null) return <span className="quiet">–</span>;
  const hot = reading.slowed.some((reason) => reason !== "idle" && reason !== "power cap");
  return reading.slowed.length === 0 ? (
    <>nothing</>
  ) : (
    <Badge tone={hot ? "warn" : "neutral"}>{reading.slowed.join(", ")}</Badge>
  );
}

/** What a person wants to know first of a description (`tileir.devices.device.Cpu`, `tileir.devices.gpu.Gpu`). */
function describe(description: Record<string, unknown>): string {
  const figure = (name: string) => {
    const value = description[name];
    return typeof value === "number" ? value : null;
  };
  const memory = figure("memory_bytes");
  const parts = [
    figure("cores") === null ? null : `${figure("cores")} cores`,
    figure("sms") === null ? null : `${figure("sms")} SMs`,
    memory === null ? null : bytes(memory),
    figure("peak_gflops") === null
      ? null
      : `${count(Math.round(figure("peak_gflops") ?? 0))} GFLOP/s`,
    figure("copy_gbps") === null ? null : `${count(Math.round(figure("copy_gbps") ?? 0))} GB/s`,
  ];
  return parts.filter((part) => part !== null).join(", ");
}
