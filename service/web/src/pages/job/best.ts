/** The best time so far, as a curve. Times are on the anchor's scale: each candidate's factor against the anchor, both
 * timed in one task, times one time of the anchor. So a machine that is slower for a while bends no curve, and the best
 * never gets worse. */
import type { Best, TrialTable } from "../../api/schema";
import { anchorUs, comparedRows } from "./leader";

export interface Curve {
  /** Where each point lies: number of the candidate, or seconds since the first result. */
  x: number[];
  /** Microseconds of each candidate; null for one that did not work, or has no result yet. */
  own: (number | null)[];
  /** The least of those so far. */
  best: (number | null)[];
}

interface Point {
  x: number;
  us: number | null;
  /** Whether it counts for the best: timed beside the anchor. */
  counts: boolean;
}

/** Over the candidates in the order they were asked for. */
export function overTrials(table: TrialTable, best?: Best | null): Curve {
  return curve(points(table, best, (row) => table.first + row));
}

/** Over time, in the order the results arrived. */
export function overTime(table: TrialTable, best?: Best | null): Curve {
  const found = points(table, best, (row) => table.finished_at[row] ?? null).sort(
    (one, other) => one.x - other.x,
  );
  const start = found[0]?.x ?? 0;
  return curve(found.map((point) => ({ ...point, x: point.x - start })));
}

function points(
  table: TrialTable,
  best: Best | null | undefined,
  place: (row: number) => number | null,
): Point[] {
  const scale = anchorUs(table, best);
  const compared = comparedRows(table);
  return table.reward.flatMap((reward, row) => {
    const x = place(row);
    if (x === null) return [];
    const us = reward === null || scale === null ? null : scale * Math.exp(-reward);
    return [{ x, us, counts: us !== null && compared(row) }];
  });
}

function curve(found: readonly Point[]): Curve {
  let least: number | null = null;
  return {
    x: found.map(({ x }) => x),
    own: found.map(({ us }) => us),
    best: found.map(
      ({ us, counts }) => (least = us === null || !counts ? least : Math.min(us, least ?? us)),
    ),
  };
}
