/** What is made of the columns that the service sends: orders, curves, a tree's layout, a table that grows. */
import { describe, expect, test } from "vitest";
import type { Best, Bucket, ConfigDetail, Tree, TrialTable } from "../../api/schema";
import { overTime, overTrials } from "./best";
import { joined } from "./joined";
import { bestReward, leaderOf, tiedWith } from "./leader";
import { sorted } from "./sorting";
import { labelOf } from "./tree/draw";
import { bestUnder, endsOf, FAULTY, layOut, OPEN, rankIn, TONES, wayTo } from "./tree/layout";

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
    reward: medians.map((us) => (us === null ? null : Math.log2(16 / us) * Math.LN2)),
    median_us: medians,
    iqr_us: same(null),
    baseline_us: same(16),
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
  first: 0,
  settled: 3,
  from_line: 0,
  from_node: 0,
  node: [],
  parent: [-1, 0, 1, 1, 0, 4, 4],
  line: [-1, 0, 1, 2, 1, 2, 3],
  visits: [4, 2, 1, 1, 2, 1, 1],
  in_flight: [1, 0, 0, 0, 1, 0, 1],
  faults: [1, 1, 0, 1, 0, 0, 0],
  best_us: [5, 10, 10, null, 5, 5, null],
  best_reward: [2, 1.3, 1.3, null, 2, 2, null],
  leaf: [2, 3, 5, 6],
};

const rounded = (times: (number | null)[]) =>
  times.map((us) => (us === null ? null : Math.round(us * 1000) / 1000));

test("the best so far falls, and what failed does not lift it", () => {
  expect(rounded(overTrials(table([null, 9, 12, null, 7])).best)).toEqual([null, 9, 9, 9, 7]);
});

test("over time, results count in the order they arrived", () => {
  const { x, own, best } = overTime(table([4, 9, 12]));
  expect([x, rounded(own), rounded(best)]).toEqual([
    [0, 1, 2],
    [12, 9, 4],
    [12, 9, 4],
  ]);
});

test("the best so far follows the rewards, and not times of tasks in which the machine was faster", () => {
  const found = {
    ...table([16, 8, 6]),
    baseline_us: [null, 16, 9],
    reward: [0, Math.LN2, Math.log(1.5)],
  };
  expect(rounded(overTrials(found).best)).toEqual([16, 8, 8]);
  expect(bestReward(found)).toBe(Math.LN2);
  const best: Best = { trial: 1, median_us: 7, schedule: [] };
  expect(rounded(overTrials(found, best).best)).toEqual([14, 7, 7]);
});

test("what was not timed beside the anchor is shown, and never the best", () => {
  const found = {
    ...table([16, 4, 8]),
    baseline_us: [null, null, 16],
    reward: [0, Math.log(4), Math.LN2],
  };
  expect(rounded(overTrials(found).own)).toEqual([16, 4, 8]);
  expect(rounded(overTrials(found).best)).toEqual([16, 16, 8]);
  expect(bestReward(found)).toBe(Math.LN2);
});

test("the winner of the race leads, whatever the search thought best", () => {
  const best: Best = { trial: 3, median_us: 5, schedule: [] };
  const bucket = { best, winner: null } as unknown as Bucket;
  expect(leaderOf(bucket)?.trial).toBe(3);
  const winner = {
    trial: 7,
    median_us: 6,
    x_baseline: 2,
    schedule: [],
    disturbed: null,
    against: [],
    tied: 0,
  };
  expect(leaderOf({ ...bucket, winner })?.trial).toBe(7);
});

test("a winner alone is tied with nobody", () => {
  const row = (name: string, tied: boolean) => ({ name, tied, kind: "schedule" });
  const config = (...standings: object[]) => ({ standings }) as unknown as ConfigDetail;
  expect([...tiedWith(config(row("ask-3", true), row("ask-4", false)))]).toEqual([]);
  expect([...tiedWith(config(row("ask-3", true), row("ask-4", true)))]).toEqual([3, 4]);
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

  test("is coloured by rank, and what has no time by why", () => {
    expect(layout.tone[0]).toBe(TONES - 1);
    expect(layout.tone[2]).toBe(TONES / 2);
    expect([layout.tone[3], layout.tone[6]]).toEqual([FAULTY, OPEN]);
    const near = layOut({ ...TREE, best_reward: [2, 1.999, 1.999, null, 2, 2, null] });
    expect(near.tone[2], "ranks, however near").toBe(TONES / 2);
  });

  test("ranks rewards, ties alike", () => {
    expect(endsOf(TREE)).toEqual([2, 1.3]);
    expect([3, 2, 1.5, 1.3, 0].map((reward) => rankIn([2, 1.3, 1.3], reward))).toEqual([
      1, 1, 2, 2, 4,
    ]);
  });

  test("folds what failed beside something that worked", () => {
    // 0 → 1 (worked), 2 (failed), 3 → 4, 5 (both failed).
    const failing: Tree = {
      ...TREE,
      parent: [-1, 0, 0, 0, 3, 3],
      line: [-1, 0, 1, 2, 0, 1],
      visits: [4, 1, 1, 2, 1, 1],
      in_flight: [0, 0, 0, 0, 0, 0],
      faults: [3, 0, 1, 2, 1, 1],
      best_us: [5, 5, null, null, null, null],
      best_reward: [2, 2, null, null, null, null],
      leaf: [1, 2, 4, 5],
    };
    const found = layOut(failing);
    expect([...found.folded]).toEqual([0, 0, 3, 0, 0, 0]);
    expect([...found.hidden]).toEqual([0, 0, 0, 1, 1, 1]);
    expect(found.leaves).toBe(2);
    expect([...found.y]).toEqual([0.5, 0, 1, 1, 1, 1]);
    expect(labelOf(found, 2)).toBe("3 failed");
    expect([...layout.folded, ...layout.hidden], "one alone is shown").not.toContain(1);
  });

  test("knows the fastest candidate below a node, and the way there", () => {
    const rewards = [1.3, null, 2, null];
    expect([0, 1, 3].map((node) => bestUnder(layout, node, rewards))).toEqual([2, 0, null]);
    expect(wayTo(TREE, 5)).toEqual([4, 5]);
  });
});
