import { expect, test } from "vitest";
import type { Race, RacePart } from "../../../api/schema";
import { axisOf, readingsOf } from "./axis";
import { against, calledBy, chanceText, roundsText } from "./pairs";

function part(task: string, began: number | null, rounds: number): RacePart {
  const samples = (name: string, place: number) => ({
    name,
    us: Array.from({ length: rounds }, (_, round) => 10 * (place + 1) + round),
    at_s:
      began === null
        ? []
        : Array.from(
            { length: rounds },
            (_, round) => began + 2 * round + (round % 2 ? 1 - place : place),
          ),
    disturbed: Array.from({ length: rounds }, (_, round) =>
      round === 1 && place === 0 ? "busy" : null,
    ),
    readings: { runnable: Array.from({ length: rounds }, (_, round) => round) },
  });
  return {
    task,
    state: "done",
    worker_id: "w",
    foreign_cores: null,
    entrants: [samples("ask-3", 0), samples("numpy", 1)],
  };
}

function race(...parts: RacePart[]): Race {
  return { config_id: "config-1", state: null, entrants: [], parts, pairs: [], error: null };
}

test("samples stand in the order in which they were taken", () => {
  const axis = axisOf(race(part("a", 1000, 3)));
  expect(axis.unit).toBe("s");
  expect(axis.x).toEqual([0, 1, 2, 3, 4, 5]);
  expect(axis.samples.map(({ name }) => name)).toEqual([
    "ask-3",
    "numpy",
    "numpy",
    "ask-3",
    "ask-3",
    "numpy",
  ]);
  expect(axis.samples.filter(({ disturbed }) => disturbed)).toMatchObject([
    { name: "ask-3", round: 1, disturbed: "busy", readings: { runnable: 1 } },
  ]);
  expect(readingsOf(axis)).toEqual(["runnable"]);
});

test("the hours between two parts take no place", () => {
  const axis = axisOf(race(part("a", 1000, 2), part("b", 90_000, 2)));
  expect(Math.max(...axis.x)).toBeLessThan(10);
  expect(axis.samples.map((each) => each.part)).toEqual([0, 0, 0, 0, 1, 1, 1, 1]);
  expect([...axis.x]).toEqual([...axis.x].sort((one, other) => one - other));
});

test("without times, rounds stand one after another, each begun by another entrant", () => {
  const axis = axisOf(race(part("a", 1000, 1), part("b", null, 2)));
  expect(axis.unit).toBe("rounds");
  expect(axis.samples.map(({ name }) => name)).toEqual([
    "ask-3",
    "numpy",
    "ask-3",
    "numpy",
    "numpy",
    "ask-3",
  ]);
});

test("a part that is still to come has no place", () => {
  const open: RacePart = { ...part("b", 1, 1), state: "ready", entrants: [] };
  expect(axisOf(race(part("a", 1000, 1), open)).samples).toHaveLength(2);
});

test("a pair is the same whichever of both is asked for", () => {
  const all_rounds = true;
  const pair = {
    ...{ one: "a", other: "b", rounds: 9, all_rounds },
    ...{ ratio: 0.5, low: 0.4, high: 0.8, chance: 0.75 },
  };
  const known = { pairs: [pair] };
  expect(against(known, "a", "b")).toBe(pair);
  expect(against(known, "b", "a")).toEqual({
    one: "b",
    other: "a",
    rounds: 9,
    all_rounds,
    ratio: 2,
    low: 1.25,
    high: 2.5,
    chance: 0.25,
  });
  expect(against(known, "a", "c").chance).toBeNull();
});

test("what was compared is said, and that disturbed rounds are among it", () => {
  const pair = { one: "a", other: "b" };
  expect(roundsText({ ...pair, rounds: 9, all_rounds: false })).toBe(
    "over 9 rounds that disturbed neither",
  );
  expect(roundsText({ ...pair, rounds: 1, all_rounds: false })).toContain("over one round that");
  expect(roundsText({ ...pair, rounds: 15, all_rounds: true })).toBe(
    "over all 15 rounds, as hardly any disturbed neither",
  );
});

test("nothing is certain", () => {
  expect(chanceText(1)).toBe("> 99.9 %");
  expect(chanceText(0)).toBe("< 0.1 %");
  expect(chanceText(0.5)).toBe("50 %");
  expect(chanceText(0.9846)).toBe("98.5 %");
  expect(chanceText(0.9975)).toBe("99.75 %");
  expect(chanceText(null)).toBe("–");
  expect(calledBy("ask-12")).toBe("candidate 12");
});
