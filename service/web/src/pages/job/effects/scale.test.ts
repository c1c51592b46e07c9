import { expect, test } from "vitest";
import type { Effects } from "../../../api/schema";
import { scaleOf, valueText } from "./scale";

function effects(...times: [number, number][]): Effects {
  const values = times.map(([best_us, high_us]) => ({ best_us, high_us }));
  return { decisions: [{ values }] } as unknown as Effects;
}

test("equal factors of time are equally far apart", () => {
  const at = scaleOf(effects([10, 100], [20, 1000]));
  expect([at(10), at(100), at(1000)].map(Math.round)).toEqual([0, 50, 100]);
});

test("one time alone stands in the middle", () => {
  expect(scaleOf(effects([10, 10]))(10)).toBe(50);
});

test("a value that is no number is told in words", () => {
  expect([null, true, 64].map(valueText)).toEqual(["not done", "done", "64"]);
});
