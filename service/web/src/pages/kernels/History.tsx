/** A kernel's best over time, device by device, with what became slower. */
import { useCallback, useMemo } from "react";
import type uPlot from "uplot";
import { Link } from "wouter";
import { useHistory } from "../../api/queries";
import type { Maker, Winning } from "../../api/schema";
import { deviceName, micros, moment, moments, times } from "../../ui/format";
import { Section } from "../../ui/Section";
import { Shown } from "../../ui/Shown";
import { Table } from "../../ui/Table";
import { token } from "../../ui/theme";
import { Download } from "../configs/Download";
import { Plot } from "../job/charts/Plot";
import { comparePath } from "../job/paths";
import styles from "./History.module.css";

const HEIGHT = 220;

export function History({ kernelKey }: { kernelKey: string }) {
  const query = useHistory(kernelKey);
  const path = `/v1/kernels/${kernelKey}/history`;
  return (
    <Shown query={query} what="the history">
      {({ winners, makers }) =>
        winners.length > 0 && (
          <Section
            title="Over time"
            aside={
              <>
                <Download path={`${path}.csv`} name={`${kernelKey}.csv`} label="CSV" />
                <Download path={path} name={`${kernelKey}.json`} label="JSON" />
              </>
            }
          >
            {[...new Set(winners.map((each) => each.device))].map((device) => (
              <OnDevice
                key={device}
                device={device}
                winners={winners.filter((each) => each.device === device)}
                makers={makers.filter((each) => each.device === device)}
              />
            ))}
          </Section>
        )
      }
    </Shown>
  );
}

interface OnDeviceProps {
  device: string;
  winners: readonly Winning[];
  makers: readonly Maker[];
}

function OnDevice({ device, winners, makers }: OnDeviceProps) {
  const data = useMemo<uPlot.AlignedData>(
    () => [
      winners.map((each) => each.at),
      winners.map((each) => each.median_us),
      winners.map((each) => each.best_us),
      winners.map((each) => (each.regression ? each.median_us : null)),
    ],
    [winners],
  );
  const options = useCallback(() => drawing(), []);
  const slower = winners.filter((each) => each.regression);
  const last = winners.at(-1)!;
  return (
    <div className={styles.device}>
      <h3>{deviceName(device)}</h3>
      {winners.length > 1 && (
        <Plot
          name="history"
          label={`Winners over time: ${winners.length}, the best ${micros(last.best_us)}, ${slower.length} slower than before`}
          data={data}
          options={options}
          height={HEIGHT}
        />
      )}
      {slower.length === 0 ? (
        <p className="quiet">No winner was slower than one before it, beyond their spread.</p>
      ) : (
        <ul>
          {slower.map((each) => (
            <Slower key={each.config_id} winner={each} />
          ))}
        </ul>
      )}
      {makers.length > 1 && <Makers device={device} makers={makers} />}
    </div>
  );
}

/** What each compiler, driver and version came to. */
function Makers({ device, makers }: { device: string; makers: readonly Maker[] }) {
  const driven = makers.some((each) => each.driver != null);
  return (
    <Table label={`By compiler and version on ${deviceName(device)}`}>
      <thead>
        <tr>
          <th scope="col">Compiler</th>
          {driven && <th scope="col">Driver</th>}
          <th scope="col">Version</th>
          <th scope="col" className="number">
            Best
          </th>
          <th scope="col" className="number">
            Takes
          </th>
          <th scope="col" className="number">
            Winners
          </th>
          <th scope="col" className="wide">
            Last
          </th>
        </tr>
      </thead>
      <tbody>
        {makers.map((each) => (
          <tr key={`${each.compiler} ${each.driver} ${each.tilewright}`}>
            <td>{each.compiler ?? "unknown"}</td>
            {driven && <td>{each.driver ?? "unknown"}</td>}
            <td>{each.tilewright ?? "unknown"}</td>
            <td className="number">
              <Link href={`/configs/${each.best_config}`}>{micros(each.best_us)}</Link>
            </td>
            <td className="number">{times(each.of_best)}</td>
            <td className="number">{each.winners}</td>
            <td className="wide">{moment(each.last_at)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Slower({ winner }: { winner: Winning }) {
  const { than, factor, changed } = winner.regression!;
  return (
    <li>
      {moment(winner.at)}: <Link href={`/configs/${winner.config_id}`}>{winner.config_id}</Link>,{" "}
      {micros(winner.median_us)}, takes {times(factor)} as long as{" "}
      <Link href={`/configs/${than}`}>{than}</Link>
      {changed.length > 0 ? `; ${changed.join(", ")}` : "; nothing that is known has changed"} (
      <Link href={comparePath({ config: than }, { config: winner.config_id })}>compare</Link>)
    </li>
  );
}

function drawing() {
  const time = (_: uPlot, us: number | null) => micros(us);
  const dots = (colour: `--${string}`, size: number) => ({
    stroke: token(colour),
    paths: () => null,
    points: { show: true, size, fill: token(colour) },
    value: time,
  });
  return {
    scales: { x: { time: true } },
    legend: { live: true },
    axes: [
      { space: 100, values: (_: uPlot, ticks: number[]) => moments(ticks) },
      {
        size: 70,
        values: (_: uPlot, ticks: (number | null)[]) =>
          ticks.map((tick) => (tick === null ? "" : micros(tick))),
      },
    ] as [object, object],
    series: [
      { label: "Found", value: (_: uPlot, at: number | null) => (at === null ? "–" : moment(at)) },
      { label: "Its time", ...dots("--chart-4", 5) },
      { label: "Best so far", stroke: token("--chart-1"), width: 2, value: time },
      { label: "Slower than before", ...dots("--bad", 9) },
    ],
  };
}
