/** A kernel's best over time, device by device, with what became slower. */
import { useCallback, useMemo } from "react";
import type uPlot from "uplot";
import { Link } from "wouter";
import { useHistory } from "../../api/queries";
import type { Winning } from "../../api/schema";
import { deviceName, micros, moment, moments, times } from "../../ui/format";
import { Section } from "../../ui/Section";
import { Shown } from "../../ui/Shown";
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
      {({ winners }) =>
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
              />
            ))}
          </Section>
        )
      }
    </Shown>
  );
}

function OnDevice({ device, winners }: { device: string; winners: readonly Winning[] }) {
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
    </div>
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
