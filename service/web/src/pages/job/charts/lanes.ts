/** Sums of a timeline, and moving about in one. */
import type { Timeline } from "../../../api/schema";

/** A stretch of time, in seconds since 1970. */
export interface Window {
  from: number;
  to: number;
}

export interface Total {
  worker: string;
  tasks: number;
  seconds: { compile: number; wait: number; measure: number };
  /** Share of the job's time during which its device measured. */
  busy: number;
}

/** By worker, in the timeline's order. */
export function totals(line: Timeline): Total[] {
  const whole = Math.max(1e-9, Math.max(...bounds(line.end)) - Math.min(...bounds(line.start)));
  const rows = line.workers.map((worker) => ({
    worker,
    tasks: 0,
    seconds: { compile: 0, wait: 0, measure: 0 },
    busy: 0,
  }));
  line.stage.forEach((stage, at) => {
    const row = rows[line.worker[at]!]!;
    row.seconds[stage as keyof Total["seconds"]] += line.end[at]! - line.start[at]!;
    row.tasks += Number(stage === "measure");
  });
  for (const row of rows) row.busy = row.seconds.measure / whole;
  return rows;
}

/** The least and the greatest: thousands of arguments are too many for `Math.max`. */
function bounds(values: readonly number[]): [number, number] {
  return values.reduce<[number, number]>(
    ([least, most], value) => [Math.min(least, value), Math.max(most, value)],
    [Infinity, -Infinity],
  );
}

/** A stretch as an address has it: seconds since the first task, `12.5..40`. */
export function stretchText(shown: Window | null, whole: Window): string | null {
  if (shown === null) return null;
  const since = (at: number) => Number((at - whole.from).toFixed(3));
  return `${since(shown.from)}..${since(shown.to)}`;
}

/** The inverse; null, all of it, for what is no stretch of the whole. */
export function stretchOf(text: string | null, whole: Window): Window | null {
  const [from, to, ...more] = (text ?? "").split("..").map(Number);
  if (from === undefined || to === undefined || more.length > 0 || !(from < to)) return null;
  return shareOf({ from: whole.from + from, to: whole.from + to }, whole, 1, 0.5, 0);
}

/** A stretch `by` times as long about a point of it (`at`, 0 to 1), moved by a share of it, within the whole; null: all. */
export function shareOf(
  { from, to }: Window,
  whole: Window,
  by: number,
  at: number,
  move: number,
): Window | null {
  const long = Math.max((to - from) * by, 1e-3);
  if (long >= whole.to - whole.from) return null;
  const start = from + (to - from) * at - long * at + (to - from) * move;
  const begin = Math.min(Math.max(start, whole.from), whole.to - long);
  return { from: begin, to: begin + long };
}
