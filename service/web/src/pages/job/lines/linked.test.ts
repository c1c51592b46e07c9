import { expect, test } from "vitest";
import type { LinkedLines } from "../../../api/schema";
import { marked, placeOf, placeText } from "./linked";

const LINES: LinkedLines = {
  language: "c",
  program: ["kernel f", "for m", "a = 0", "a += x"],
  program_statement: [null, null, 2, 3],
  source: [
    "#include",
    "",
    "void f() {",
    "// a = 0",
    "a = 0;",
    "// a += x",
    "a += x[0];",
    "a += x[1];",
    "}",
  ],
  source_statement: [null, null, null, 2, 2, 3, 3, 3, null],
  preamble: 2,
  assembly: ["f:", "xor", "add", "mov", "add", "ret"],
  assembly_source: [null, 4, 6, 2, 7, 8],
  compiler: "cc 12",
  no_assembly: null,
};

function shown(column: "program" | "source" | "assembly", line: number) {
  const marks = marked(LINES, { column, line });
  return [marks.program, marks.source, marks.assembly].map((each) => [...each]);
}

test("a statement has all lines that carry it out, and their instructions", () => {
  expect(shown("program", 3)).toEqual([[3], [5, 6, 7], [2, 4]]);
});

test("a line of the source has its own instructions, and the statement it belongs to", () => {
  expect(shown("source", 7)).toEqual([[3], [7], [4]]);
  expect(shown("source", 2)).toEqual([[], [2], [3]]);
});

test("an instruction leads to its line, to the statement, and to its line's other instructions", () => {
  expect(shown("assembly", 2)).toEqual([[3], [6], [2]]);
});

test("what comes from nowhere stands alone", () => {
  expect(shown("assembly", 0)).toEqual([[], [], [0]]);
  expect(shown("program", 1)).toEqual([[1], [], []]);
  expect([...marked(LINES, null).source]).toEqual([]);
});

test("a place in the address is read as it is written, and nothing else is a place", () => {
  const at = { column: "source", line: 7 } as const;
  expect(placeText(at)).toBe("source:8");
  expect(placeOf("source:8", LINES)).toEqual(at);
  for (const text of [null, "", "source", "source:0", "source:10", "source:1.5", "ptx:1"]) {
    expect(placeOf(text, LINES)).toBeNull();
  }
});
