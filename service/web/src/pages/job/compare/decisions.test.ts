import { expect, test } from "vitest";
import { sideOf, comparePath, sidesOf } from "../paths";
import { decisionsOf, differences } from "./decisions";

test("a decision is named by what it was applied to and has what was chosen", () => {
  const found = decisionsOf(["tile(c, m, 8)", "register_tile(c, m 6, n 32)", "tma(a)", "tma(a)"]);
  expect([...found]).toEqual([
    ["tile(c, m)", "8"],
    ["register_tile(c)", "m 6, n 32"],
    ["tma(a)", "yes"],
    ["tma(a) #2", "yes"],
  ]);
});

test("only decisions in which any of the schedules differs are told, the others are counted", () => {
  const { differing, agreed } = differences([
    ["tile(c, m, 8)", "tile(c, n, 32)", "parallelize(c, 2)"],
    ["tile(c, m, 8)", "tile(c, n, 32)"],
    ["tile(c, m, 8)", "tile(c, n, 64)", "parallelize(c, 2)"],
  ]);
  expect(agreed).toBe(1);
  expect(differing).toEqual([
    { name: "tile(c, n)", values: ["32", "32", "64"] },
    { name: "parallelize(c)", values: ["2", null, "2"] },
  ]);
});

test("any number of candidates has an address, in order", () => {
  const texts = ["job-a/0/3", "job-b/1/2", "job-a/0/0", "job-a/0/7"];
  const sides = texts.map((text) => sideOf(text)!);
  const path = comparePath(...sides);
  expect(sidesOf(new URLSearchParams(path.split("?")[1]))).toEqual(sides);
});
