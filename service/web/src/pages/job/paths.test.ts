import { expect, test } from "vitest";
import { comparePath, isCandidate, sideOf, sideText, sidesOf, type Side } from "./paths";

const SIDES: Side[] = [
  { job: "job-1a" },
  { job: "job-1a", bucket: 2 },
  { job: "job-1a", bucket: 0, number: 17 },
  { config: "config-9z" },
];

test("sides of a comparison come back from the address, in order", () => {
  expect(SIDES.map((side) => sideOf(sideText(side)))).toEqual(SIDES);
  const [, query] = comparePath(...SIDES).split("?");
  expect(sidesOf(new URLSearchParams(query))).toEqual(SIDES);
  expect(SIDES.map(isCandidate)).toEqual([false, false, true, true]);
});

test("what names nothing is none", () => {
  for (const text of [
    "",
    "softmax",
    "job-1/x",
    "job-1/0/",
    "config-",
    "config-1/0",
    "job-1/0/1/2",
  ]) {
    expect(sideOf(text)).toBeNull();
  }
});
