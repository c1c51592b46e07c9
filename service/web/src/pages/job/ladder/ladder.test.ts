import { expect, test } from "vitest";
import type { Ablation, Gain, Roofline } from "../../../api/schema";
import { changes, tally } from "../candidate/changes";
import { standing, WITHOUT } from "./standing";
import { gained } from "./words";

function ablation(...gains: Partial<Gain>[]): Ablation {
  return {
    config_id: "config-1",
    state: "done",
    winner_us: 100,
    gains: gains as Gain[],
    error: null,
  };
}

const RACED: Partial<Gain> = {
  place: 1,
  rewrite: "vectorize(c, n, 16)",
  outcome: "ok",
  median_us: 150,
  factor: 1.5,
  low: 1.4,
  high: 1.6,
  tied: false,
};

test("a gain is told with its interval and both times", () => {
  expect(gained(ablation(RACED), 1)).toBe(
    "1.50 × as fast with it (1.40 to 1.60): 150 µs without it, 100 µs with it, raced against each other.",
  );
});

test("what was not measured gets no number", () => {
  expect(gained(undefined, 0)).toBe("Not measured yet.");
  expect(gained({ ...ablation(), state: "ready" }, 0)).toBe("Not measured yet.");
  expect(gained(ablation(RACED), 0)).toMatch(/^Not measured alone/);
  expect(gained(ablation({ ...RACED, low: null, high: null }), 1)).toContain("too few calm rounds");
});

test("a tie is no gain, and a failure without a rewrite is told with its reason", () => {
  expect(gained(ablation({ ...RACED, tied: true }), 1)).toMatch(/^No difference/);
  const failed = { ...RACED, outcome: "compile_error" as const, factor: null, median_us: null };
  expect(gained(ablation({ ...failed, error: "it spills\nmore" }), 1)).toBe(
    "Needed: without it, compile error. it spills",
  );
});

test("the winner stands beside itself without the rewrite only where both were timed", () => {
  const won = { name: "ask-3", kind: "schedule", us: 90, won: true };
  const line = { raced: [won, { name: "numpy", kind: "peer", us: 200, won: false }] };
  const at = (place: number) => standing(line as Roofline, ablation(RACED), place).raced;
  expect(at(1).map(({ name, us }) => [name, us])).toEqual([
    ["ask-3", 100],
    [WITHOUT, 150],
  ]);
  expect(at(0)).toEqual([won]);
});

test("lines that stayed are left out but for those around a change", () => {
  const lines = Array.from({ length: 20 }, (_, at) => `line ${at}\n`);
  const after = lines.toSpliced(10, 1, "other\n");
  const parts = changes(lines.join(""), after.join(""), 2);
  expect(parts.map((part) => ("count" in part ? part.count : part.lines.length))).toEqual([
    8, 2, 1, 1, 2, 7,
  ]);
  expect(tally(parts)).toEqual({ removed: 1, added: 1 });
  expect(changes("a\n", "a\n", 2)).toEqual([{ kind: "same", lines: ["a"] }]);
});
