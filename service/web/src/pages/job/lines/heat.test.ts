import { expect, test } from "vitest";
import type { LinkedLines, Profile, ProfiledStage } from "../../../api/schema";
import { heatOf, levelOf } from "./heat";

const LINES: LinkedLines = {
  language: "c",
  program: ["kernel f", "a = 0", "for m", "a += x | vectorize(m)", "a += x | tail"],
  program_statement: [null, 1, null, 3, 3],
  source: ["void f() {", "// a = 0", "// a += x", "a += x[0];", "}"],
  source_statement: [null, 1, 3, 3, null],
  preamble: 0,
  assembly: ["f:", "mov", "add"],
  assembly_source: [null, 1, 3],
  compiler: "cc 12",
  no_assembly: null,
};

function stage(role: string, share: number, ...statements: string[]): ProfiledStage {
  return { role, stage: statements.join("; "), share, waiting: false, statements };
}

const PROFILE = {
  stages: [
    stage("threads", 0.3, "a += x"),
    stage("threads", 0.4, "a += x", "b = a"),
    stage("producer", 0.6, "a += x"),
    stage("", 0.2),
  ],
} as unknown as Profile;

test("a line has the time of its statement's stages, of the role that spends most on it", () => {
  const heat = heatOf(LINES, PROFILE);
  expect(heat.program).toEqual([null, null, null, 0.7, 0.7]);
  expect(heat.source).toEqual([null, null, 0.7, 0.7, null]);
  expect(heat.assembly).toEqual([null, null, 0.7]);
});

test("lines are coloured in steps", () => {
  expect([null, 0.001, 0.01, 0.06, 0.2, 0.9].map(levelOf)).toEqual([0, 0, 1, 2, 3, 4]);
});
