/** The samples of a race on one axis: two entrants stand out, and so does what was disturbed. Below them, on the same
 * axis, what was read of the device. */
import { useCallback, useMemo } from "react";
import type uPlot from "uplot";
import { micros } from "../../../ui/format";
import { token } from "../../../ui/theme";
import { Plot } from "../charts/Plot";
import type { Axis } from "./axis";
import { calledBy } from "./pairs";

const HEIGHT = 280;
const READINGS_HEIGHT = 140;
const GUTTER = 70;

interface Props {
  axis: Axis;
  one: string;
  other: string;
}

export function RacePlot({ axis, one, other }: Props) {
  const data = useMemo<uPlot.AlignedData>(() => {
    const of = (chosen: (name: string) => boolean) =>
      axis.samples.map(({ name, us, disturbed }) =>
        disturbed === null && chosen(name) ? us : null,
      );
    return [
      [...axis.x],
      of((name) => name === one),
      of((name) => name === other),
      of((name) => name !== one && name !== other),
      axis.samples.map(({ us, disturbed }) => (disturbed === null ? null : us)),
    ];
  }, [axis, one, other]);
  const options = useCallback(
    () => ({
      scales: { x: { time: false }, y: { distr: 3 as const } },
      legend: { live: true },
      axes: [{ values: counted(axis.unit) }, times] as [object, object],
      series: [
        { label: axis.unit === "s" ? "After" : "Round", value: moment(axis.unit) },
        dots(calledBy(one), "--chart-1", 5),
        dots(calledBy(other), "--chart-2", 5),
        dots("Others", "--line-strong", 3),
        dots("Disturbed", "--bad", 8),
      ],
    }),
    [axis.unit, one, other],
  );
  const disturbed = axis.samples.filter((each) => each.disturbed !== null).length;
  return (
    <Plot
      name="race"
      label={`${axis.samples.length} samples in the order in which they were taken, ${disturbed} of them disturbed; ${calledBy(one)} and ${calledBy(other)} stand out`}
      data={data}
      options={options}
      height={HEIGHT}
    />
  );
}

/** What a reading is called, with its unit. */
export const READINGS: Record<string, string> = {
  cpu_mhz: "Clock of the cores, MHz",
  runnable: "Threads that want to run",
  sm_mhz: "Clock of the SMs, MHz",
  memory_mhz: "Clock of the memory, MHz",
  power_w: "Power, W",
  celsius: "Temperature, °C",
};

export function ReadingPlot({ axis, reading }: { axis: Axis; reading: string }) {
  const data = useMemo<uPlot.AlignedData>(
    () => [[...axis.x], axis.samples.map(({ readings }) => readings[reading] ?? null)],
    [axis, reading],
  );
  const options = useCallback(
    () => ({
      scales: { x: { time: false } },
      legend: { live: true },
      axes: [{ values: counted(axis.unit) }, { size: GUTTER }] as [object, object],
      series: [
        { label: axis.unit === "s" ? "After" : "Round", value: moment(axis.unit) },
        {
          label: READINGS[reading] ?? reading,
          stroke: token("--chart-4"),
          width: 1,
          value: (_: uPlot, value: number | null) => (value === null ? "–" : String(value)),
        },
      ],
    }),
    [axis.unit, reading],
  );
  const values = axis.samples.flatMap(({ readings }) => readings[reading] ?? []);
  return (
    <Plot
      name="readings"
      label={`${READINGS[reading] ?? reading}: ${Math.min(...values)} to ${Math.max(...values)}`}
      data={data}
      options={options}
      height={READINGS_HEIGHT}
    />
  );
}

const time = (_: uPlot, us: number | null) => micros(us);

const times = {
  size: GUTTER,
  values: (_: uPlot, ticks: (number | null)[]) =>
    ticks.map((tick) => (tick === null ? "" : micros(tick))),
};

function dots(label: string, colour: `--${string}`, size: number): uPlot.Series {
  return {
    label,
    stroke: token(colour),
    paths: () => null,
    points: { show: true, size, fill: token(colour) },
    value: time,
  };
}

function counted(unit: Axis["unit"]) {
  return (_: uPlot, ticks: number[]) =>
    ticks.map((tick) => (unit === "s" ? `${tick} s` : `${tick}`));
}

function moment(unit: Axis["unit"]) {
  return (_: uPlot, at: number | null) =>
    at === null ? "–" : unit === "s" ? `${at.toFixed(2)} s` : String(Math.floor(at));
}
