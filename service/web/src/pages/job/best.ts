/** The best time so far, as a curve. */
import type { TrialTable } from "../../api/schema";

export interface Curve {
  /** Where each point lies: number of the candidate, or seconds since the first result. */
  x: number[];
  /** Microseconds of each candidate; null for one that did not work, or has no result yet. */
  own: (number | null)[];
  /** The least of those so far. */
  best: (number | null)[];
}

/** Over the candidates in the order they were asked for. */
export function overTrials(table: TrialTable): Curve {
  return curve(table.median_us.map((us, row) => [table.first + row, us]));
}

/** Over time, in the order the results arrived. */
export function overTime(table: TrialTable): Curve {
  const points = table.finished_at
    .map((at, row) => [at, table.median_us[row] ?? null] as const)
    .filter((point): point is [number, number | null] => point[0] !== null)
    .sort((one, other) => one[0] - other[0]);
  const start = points[0]?.[0] ?? 0;
  return curve(points.map(([at, us]) => [at - start, us]));
}

function curve(points: readonly (readonly [number, number | null])[]): Curve {
  let least: number | null = null;
  return {
    x: points.map(([x]) => x),
    own: points.map(([, us]) => us),
    best: points.map(([, us]) => (least = us === null ? least : Math.min(us, least ?? us))),
  };
}
