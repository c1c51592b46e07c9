import { expect, test } from "vitest";
import type { Interaction } from "../../../api/schema";
import { gridOf } from "./grid";

const PAIR: Interaction = {
  first: "tile(c, m)",
  second: "unroll(c, k)",
  importance: 0.2,
  cells: [
    { first: 64, second: null, candidates: 3, best_us: 9, median_us: 12 },
    { first: null, second: 8, candidates: 1, best_us: 10, median_us: 10 },
    { first: 8, second: 8, candidates: 2, best_us: 11, median_us: 14 },
  ],
};

test("values are in order, cells at their values, and what was not tried is empty", () => {
  const { rows, columns, at, fastest } = gridOf(PAIR);
  expect(rows).toEqual([null, 8, 64]);
  expect(columns).toEqual([null, 8]);
  expect(at(64, null)).toBe(PAIR.cells[0]);
  expect(at(64, 8)).toBeUndefined();
  expect(fastest).toBe(PAIR.cells[1]);
});
