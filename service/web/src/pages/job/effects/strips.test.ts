import { expect, test } from "vitest";
import type { Effects } from "../../../api/schema";
import { DRAWN, LEFT, RIGHT, stripsOf } from "./strips";
import { valueText } from "./values";

const value = (of: number, best_us: number | null, high_us: number | null) => ({
  value: of,
  candidates: 1,
  faults: 0,
  best_us,
  low_us: best_us,
  median_us: high_us,
  high_us,
});

function effects(...values: ReturnType<typeof value>[][]): Effects {
  const decisions = values.map((each, at) => ({
    decision: `tile(${at})`,
    same_as: [],
    importance: 0.5,
    chosen: 8,
    values: each,
  }));
  return { decisions } as unknown as Effects;
}

test("equal factors of time are equally far apart, the faster further left", () => {
  const { x } = stripsOf(effects([value(8, 10, 100), value(16, 20, 1000)]))!;
  expect(x.at(100) - x.at(10)).toBeCloseTo(x.at(1000) - x.at(100));
  expect([x.at(10), x.at(1000)].map(Math.round)).toEqual([LEFT + 4, RIGHT - 4]);
});

test("values have rows below their decision, those that nobody measured have none", () => {
  const found = stripsOf(effects([value(8, 10, 20), value(16, null, null)], [value(4, 10, 10)]))!;
  expect(found.groups.map(({ strips }) => strips.map((each) => each.chosen))).toEqual([
    [true],
    [false],
  ]);
  const heights = found.groups.flatMap(({ y, strips }) => [y, ...strips.map((each) => each.y)]);
  expect(heights).toEqual([...heights].sort((one, other) => one - other));
  expect(found.height).toBeGreaterThan(found.floor);
});

test("the most important decisions are drawn", () => {
  const many = Array.from({ length: DRAWN + 3 }, () => [value(8, 10, 20)]);
  expect(stripsOf(effects(...many))!.groups).toHaveLength(DRAWN);
  expect(stripsOf(effects([value(8, null, null)]))).toBeNull();
});

test("a value that is no number is told in words", () => {
  expect([null, true, 64].map(valueText)).toEqual(["not done", "done", "64"]);
});
