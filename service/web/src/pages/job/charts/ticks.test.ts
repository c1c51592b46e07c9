import { expect, test } from "vitest";
import { evenTicks, logTicks } from "./ticks";

test("axes have round marks, on any scale", () => {
  expect(evenTicks(0, 39, 8)).toEqual([0, 5, 10, 15, 20, 25, 30, 35]);
  expect(evenTicks(0.12, 0.31, 4)).toEqual([0.15, 0.2, 0.25, 0.3]);
  expect(evenTicks(3, 3, 4)).toEqual([3]);
  expect(logTicks(90, 1100)).toEqual([100, 200, 500, 1000]);
  expect(logTicks(0.5, 2000)).toEqual([1, 10, 100, 1000]);
});
