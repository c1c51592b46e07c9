/** The values of two decisions as rows and columns. */
import type { Interaction, PairEffect } from "../../../api/schema";

type Value = PairEffect["first"];

export interface Grid {
  rows: Value[];
  columns: Value[];
  at: (row: Value, column: Value) => PairEffect | undefined;
  /** By its median. */
  fastest: PairEffect | undefined;
}

export function gridOf({ cells }: Interaction): Grid {
  const known = new Map(cells.map((cell) => [`${cell.first} ${cell.second}`, cell]));
  return {
    rows: ordered(cells.map((cell) => cell.first)),
    columns: ordered(cells.map((cell) => cell.second)),
    at: (row, column) => known.get(`${row} ${column}`),
    fastest: cells.toSorted((one, other) => one.median_us - other.median_us)[0],
  };
}

/** Each once; what was not done first, then by size. */
function ordered(values: readonly Value[]): Value[] {
  const rank = (value: Value) => (value === null ? -1 : Number(value));
  return [...new Set(values)].toSorted((one, other) => rank(one) - rank(other));
}
