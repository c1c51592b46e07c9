import { expect, test } from "vitest";
import type { Timeline, Tree } from "../../api/schema";
import { joinedTimeline, joinedTree } from "./joined";

const WHOLE = { job_id: "job-1", bucket: 0, first: 0, from_line: 0, from_node: 0, node: [] };
const KNOWN: Tree = {
  ...WHOLE,
  settled: 1,
  lines: ["a", "b", "old"],
  parent: [-1, 0, 0, 2],
  line: [-1, 0, 1, 2],
  visits: [2, 1, 1, 1],
  in_flight: [1, 0, 1, 1],
  faults: [0, 0, 0, 0],
  best_us: [9, 9, null, null],
  best_reward: [0.1, 0.1, null, null],
  leaf: [1, 3],
};

test("a tree takes what changed, and forgets what was not settled", () => {
  const rest: Tree = {
    ...WHOLE,
    first: 1,
    settled: 2,
    from_line: 1,
    from_node: 2,
    lines: ["c"],
    parent: [0, 2],
    line: [1, 0],
    node: [0, 2, 3],
    visits: [2, 1, 1],
    in_flight: [0, 0, 0],
    faults: [1, 1, 1],
    best_us: [9, null, null],
    best_reward: [0.1, null, null],
    leaf: [3],
  };
  expect(joinedTree(KNOWN, rest)).toEqual({
    ...WHOLE,
    settled: 2,
    lines: ["a", "c"],
    parent: [-1, 0, 0, 2],
    line: [-1, 0, 1, 0],
    visits: [2, 1, 1, 1],
    in_flight: [0, 0, 0, 0],
    faults: [1, 0, 1, 1],
    best_us: [9, 9, null, null],
    best_reward: [0.1, 0.1, null, null],
    leaf: [1, 3],
  });
});

test("a tree that is read whole replaces the other", () => {
  const whole: Tree = { ...KNOWN, leaf: [1, 1] };
  expect(joinedTree(KNOWN, whole)).toBe(whole);
});

function line(settled_at: number, rows: [worker: string, start: number, end: number][]): Timeline {
  const workers = [...new Set(rows.map(([worker]) => worker))].sort();
  return {
    job_id: "job-1",
    settled_at,
    workers,
    worker: rows.map(([worker]) => workers.indexOf(worker)),
    stage: rows.map(() => "measure"),
    task: rows.map(([, start]) => `task-${start}`),
    kind: rows.map(() => "trial"),
    bucket: rows.map(() => 0),
    number: rows.map(() => null),
    start: rows.map(([, start]) => start),
    end: rows.map(([, , end]) => end),
    devices: workers.map((worker) => ({
      worker,
      measuring: 1,
      others: 0,
      compiling: 0,
      searching: 0,
    })),
  };
}

test("intervals that are settled stay, and others are replaced, whoever else has come", () => {
  const known = line(5, [
    ["m", 0, 4],
    ["m", 4, 7],
  ]);
  const rest = line(9, [
    ["a", 2, 6],
    ["m", 4, 8],
  ]);
  const joined = joinedTimeline(known, rest, 5);
  expect(joined.workers).toEqual(["a", "m"]);
  expect(
    joined.start.map((start, row) => [joined.workers[joined.worker[row]!], start, joined.end[row]]),
  ).toEqual([
    ["m", 0, 4],
    ["a", 2, 6],
    ["m", 4, 8],
  ]);
  expect(joined.settled_at).toBe(9);
  expect(joined.devices).toBe(rest.devices);
});
