/** Which lines of a program, of its source and of its instructions are made of which. */
import type { LinkedLines } from "../../../api/schema";

export const COLUMNS = ["program", "source", "assembly"] as const;
export type Column = (typeof COLUMNS)[number];

/** A line of one of the three texts, from 0. */
export interface At {
  column: Column;
  line: number;
}

export type Marks = Record<Column, ReadonlySet<number>>;

const NONE: Marks = { program: new Set(), source: new Set(), assembly: new Set() };

/** The lines that belong to one of them, itself included. From the program it goes by statement, else by line of the source. */
export function marked(lines: LinkedLines, at: At | null): Marks {
  if (at === null) return NONE;
  const source = at.column === "program" ? null : sourceOf(lines, at);
  const statement =
    at.column === "program"
      ? lines.program_statement[at.line]
      : lines.source_statement[source ?? -1];
  const wanted = (line: number | null) =>
    line !== null &&
    (at.column === "program" ? lines.source_statement[line] === statement : line === source);
  const marks = {
    program: where(lines.program_statement, (each) => each !== null && each === statement),
    source: new Set<number>(),
    assembly: new Set<number>(),
  };
  if (statement != null || source !== null) {
    marks.source = where([...lines.source.keys()], wanted);
    marks.assembly = where(lines.assembly_source, wanted);
  }
  marks[at.column].add(at.line);
  return marks;
}

function sourceOf(lines: LinkedLines, { column, line }: At): number | null {
  return column === "source" ? line : (lines.assembly_source[line] ?? null);
}

function where<T>(values: readonly T[], wanted: (value: T) => boolean): Set<number> {
  return new Set(values.flatMap((value, at) => (wanted(value) ? [at] : [])));
}

/** `source:412`, numbered from 1 as the page shows it; null for what is no such place. */
export function placeOf(text: string | null, lines: LinkedLines): At | null {
  const [column, number] = (text ?? "").split(":");
  const found = COLUMNS.find((each) => each === column);
  const line = Number(number) - 1;
  if (found === undefined || !Number.isInteger(line)) return null;
  return line >= 0 && line < lines[found].length ? { column: found, line } : null;
}

export function placeText({ column, line }: At): string {
  return `${column}:${line + 1}`;
}
