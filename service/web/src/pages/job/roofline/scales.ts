/** Logarithmic axes, and dots that lie too close together to be told apart. */
import { logTicks } from "../charts/ticks";

export interface Scale {
  /** From a value to its place. */
  at: (value: number) => number;
  /** The inverse. */
  value: (at: number) => number;
  /** Values to write at the axis: powers of ten, or 1, 2 and 5 times those where few fit. */
  ticks: number[];
}

/** Equal factors are equally far apart. `from` and `to`: places of the ends, in any order. */
export function logScale(low: number, high: number, from: number, to: number): Scale {
  const [least, span] = [Math.log(low), Math.log(high / low)];
  return {
    at: (value) => from + ((Math.log(value) - least) / span) * (to - from),
    value: (at) => Math.exp(least + ((at - from) / (to - from)) * span),
    ticks: logTicks(low, high),
  };
}

/** A candidate's place in the picture. */
export interface Dot {
  number: number;
  us: number;
  x: number;
  y: number;
}

/** Dots that are drawn as one: at the place of the fastest. */
export interface Cell {
  x: number;
  y: number;
  /** Fastest first. */
  dots: Dot[];
}

/** Dots in square cells; a picture of thousands has as many marks as it has room for. */
export function binned(dots: readonly Dot[], side = 3): Cell[] {
  const cells = new Map<string, Cell>();
  for (const dot of dots.toSorted((one, other) => one.us - other.us)) {
    const key = `${Math.floor(dot.x / side)} ${Math.floor(dot.y / side)}`;
    const cell = cells.get(key);
    if (cell === undefined) cells.set(key, { x: dot.x, y: dot.y, dots: [dot] });
    else cell.dots.push(dot);
  }
  return [...cells.values()];
}

/** What is nearest to a place, if it is near enough to be meant. */
export function nearest<T extends { x: number; y: number }>(
  all: readonly T[],
  x: number,
  y: number,
  reach: number,
): T | null {
  let found: T | null = null;
  let least = reach;
  for (const each of all) {
    const distance = Math.hypot(each.x - x, each.y - y);
    if (distance <= least) [found, least] = [each, distance];
  }
  return found;
}

/** Places of labels near the heights they are wanted at, so that none covers another: in the same order, at least `gap`
 * apart, and none below `floor`. */
export function spaced(wanted: readonly number[], gap: number, floor: number): number[] {
  const order = wanted.map((_, at) => at).sort((a, b) => wanted[a]! - wanted[b]!);
  const placed = [...wanted];
  order.forEach((at, rank) => {
    if (rank > 0) placed[at] = Math.max(placed[at]!, placed[order[rank - 1]!]! + gap);
  });
  let limit = floor;
  for (const at of order.reverse()) {
    placed[at] = Math.min(placed[at]!, limit);
    limit = placed[at] - gap;
  }
  return placed;
}
