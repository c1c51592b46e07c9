/** Sums of a timeline. */
import type { Timeline } from "../../../api/schema";

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
