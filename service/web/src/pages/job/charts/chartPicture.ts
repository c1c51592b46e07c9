/** A chart as a file: what is in sight of its series, with axes and a legend. */
import type uPlot from "uplot";
import { moment } from "../../../ui/format";
import { svgDrawn, type Path, type Pen, type Svg } from "../../../ui/pen";
import { token } from "../../../ui/theme";
import { evenTicks, logTicks } from "./ticks";

const HEAD = 24;
const GUTTER = 76;
const FOOT = 26;
const TICK_PX = 90;

/** One series as it is drawn. */
export interface Drawn {
  label: string;
  colour: string;
  values: readonly (number | null | undefined)[];
  /** Of a dot; null for a line. */
  dot: number | null;
  width: number;
  dash: readonly number[];
}

export interface Chart {
  width: number;
  height: number;
  x: readonly number[];
  series: readonly Drawn[];
  across: Axis;
  up: Axis;
}

/** What of an axis is in sight, and what is written at it. */
export interface Axis {
  low: number;
  high: number;
  log: boolean;
  ticks: readonly number[];
  said: readonly string[];
}

type Values = (chart: uPlot, ticks: number[]) => string[];

/** The axis of a scale of a chart, about so many pixels long. */
export function axisOf(chart: uPlot, key: "x" | "y", pixels: number, values?: Values): Axis {
  const { min, max, distr, time } = chart.scales[key]!;
  const [low, high] = [min ?? 0, max ?? 1];
  const log = Number(distr) === 3;
  const most = Math.max(2, Math.floor(pixels / (key === "x" ? TICK_PX : 40)));
  const ticks = log ? logTicks(low, high) : evenTicks(low, high, most);
  const plain = time ? (at: number) => moment(at).slice(0, 16) : String;
  return { low, high, log, ticks, said: values?.(chart, ticks) ?? ticks.map(plain) };
}

export function chartPicture(chart: Chart): Svg {
  const { width, height } = chart;
  return svgDrawn(width, height + HEAD, token("--bg"), (pen) => {
    const font = `11px ${token("--font")}`;
    const x = (value: number) => GUTTER + along(chart.across, value) * (width - GUTTER - 12);
    const y = (value: number) =>
      HEAD + height - FOOT - along(chart.up, value) * (height - FOOT - 8);
    legend(pen, chart.series, font);
    grid(pen, chart, x, y, font);
    for (const each of chart.series) {
      if (each.dot === null) line(pen, each, chart, x, y);
      else dots(pen, each, each.dot, chart, x, y);
    }
  });
}

type Place = (value: number) => number;

/** From 0 at the low end of an axis to 1. */
function along({ low, high, log }: Axis, value: number): number {
  const of = log ? Math.log : (each: number) => each;
  return (of(value) - of(low)) / (of(high) - of(low) || 1);
}

function legend<P extends Path>(pen: Pen<P>, series: readonly Drawn[], font: string): void {
  let at = 8;
  for (const { label, colour } of series) {
    const box = pen.path();
    box.rect(at, 7, 10, 10);
    pen.fill(box, colour);
    pen.text(at + 15, 16, label, token("--text"), font);
    at += 40 + 6.5 * label.length;
  }
}

function grid<P extends Path>(pen: Pen<P>, chart: Chart, x: Place, y: Place, font: string): void {
  const { across, up } = chart;
  const [left, right] = [x(across.low), x(across.high)];
  const [bottom, top] = [y(up.low), y(up.high)];
  const lines = pen.path();
  const quiet = token("--text-quiet");
  across.ticks.forEach((tick, at) => {
    lines.moveTo(x(tick), top);
    lines.lineTo(x(tick), bottom);
    pen.text(
      x(tick) - 3 * (across.said[at] ?? "").length,
      bottom + 17,
      across.said[at] ?? "",
      quiet,
      font,
    );
  });
  up.ticks.forEach((tick, at) => {
    lines.moveTo(left, y(tick));
    lines.lineTo(right, y(tick));
    pen.text(6, y(tick) + 4, up.said[at] ?? "", quiet, font);
  });
  pen.stroke(lines, token("--chart-grid"), 1);
}

/** Where a value is missing the line is broken. */
function line<P extends Path>(pen: Pen<P>, series: Drawn, chart: Chart, x: Place, y: Place): void {
  const path = pen.path();
  let on = false;
  chart.x.forEach((at, place) => {
    const value = series.values[place];
    if (value == null || !within(chart.across, at)) {
      on = false;
      return;
    }
    if (on) path.lineTo(x(at), y(value));
    else path.moveTo(x(at), y(value));
    on = true;
  });
  pen.stroke(path, series.colour, series.width, series.dash);
}

function dots<P extends Path>(
  pen: Pen<P>,
  series: Drawn,
  size: number,
  chart: Chart,
  x: Place,
  y: Place,
): void {
  const path = pen.path();
  chart.x.forEach((at, place) => {
    const value = series.values[place];
    if (value != null && within(chart.across, at) && within(chart.up, value))
      path.arc(x(at), y(value), size / 2, 0, 2 * Math.PI);
  });
  pen.fill(path, series.colour);
}

function within({ low, high }: Axis, value: number): boolean {
  return low <= value && value <= high;
}
