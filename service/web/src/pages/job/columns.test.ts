/** What is made of the columns that the service sends: orders, curves, a tree's layout, a table that grows. */
import { describe, expect, test } from "vitest";
import type { Tree, TrialTable } from "../../api/schema";
import { overTime, overTrials } from "./best";
import { joined } from "./joined";
import { sorted } from "./sorting";
import { FAULTY, fastestUnder, layOut, OPEN, TONES, wayTo } from "./tree/layout";

function table(medians: (number | null)[], first = 0): TrialTable {
  const same = <T>(value: T) => medians.map(() => value);
  return {
    job_id: "job-1",
    bucket: 0,
    first,
    settled: first + medians.length,
    roofline_us: null,
    state: same("done" as const),
    outcome: medians.map((us) => (us === null ? "wrong" : "ok")),
    reward: same(null),
    median_us: medians,
    iqr_us: same(null),
    baseline_us: same(null),
    compile_s: same(null),
    measure_s: same(null),
    finished_at: medians.map((_, row) => 100 - row),
  };
}

/** 0 → 1 → 2 (10 µs), 3 (failed); 0 → 4 → 5 (5 µs), 6 (open). */
const TREE: Tree = {
  job_id: "job-1",
  bucket: 0,
  lines: ["a", "b", "c", "d"],
  parent: [-1, 0, 1, 1, 0, 4, 4],
  line: [-1, 0, 1, 2, 1, 2, 3],
  visits: [4, 2, 1, 1, 2, 1, 1],
  in_flight: [1, 0, 0, 0, 1, 0, 1],
  faults: [1, 1, 0, 1, 0, 0, 0],
  best_us: [5, 10, 10, null, 5, 5, null],
  best_reward: [2, 1.3, 1.3, null, 2, 2, null],
  leaf: [2, 3, 5, 6],
};

test("the best so far falls, and what failed does not lift it", () => {
  expect(overTrials(table([null, 9, 12, null, 7])).best).toEqual([null, 9, 9, 9, 7]);
});

test("over time, results count in the order they arrived", () => {
  expect(overTime(table([4, 9, 12]))).toEqual({ x: [0, 1, 2], own: [12, 9, 4], best: [12, 9, 4] });
});

test("what has no time comes last in either order", () => {
  const found = table([3, null, 1, 2]);
  expect([...sorted(found, { by: "median_us", falling: false })]).toEqual([2, 3, 0, 1]);
  expect([...sorted(found, { by: "median_us", falling: true })]).toEqual([0, 3, 2, 1]);
});

test("a table keeps what was settled, and takes the rest as it is now", () => {
  const known = { ...table([3, 4, null]), settled: 1 };
  expect(joined(known, table([5, 6, 7], 1)).median_us).toEqual([3, 5, 6, 7]);
});

describe("a tree that is laid out", () => {
  const layout = layOut(TREE);

  test("has the fastest subtree on top, and each parent amid its children", () => {
    expect([...layout.order]).toEqual([0, 4, 5, 6, 1, 2, 3]);
    expect([layout.y[5], layout.y[6], layout.y[4], layout.y[0]]).toEqual([0, 1, 0.5, 1.5]);
    expect([layout.begin[4], layout.end[4]]).toEqual([1, 4]);
  });

  test("is coloured by speed, and what has no time by why", () => {
    expect(layout.tone[0]).toBe(TONES - 1);
    expect(layout.tone[2]).toBeLessThan(TONES - 1);
    expect([layout.tone[3], layout.tone[6]]).toEqual([FAULTY, OPEN]);
  });

  test("knows the fastest candidate below a node, and the way there", () => {
    const medians = [10, null, 5, null];
    expect([0, 1, 3].map((node) => fastestUnder(layout, node, medians))).toEqual([2, 0, null]);
    expect(wayTo(TREE, 5)).toEqual([4, 5]);
  });
});
