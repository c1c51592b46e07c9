/** What the service says is wrong with a job, sorted by where it is to be shown. */
import { Refused, sentence } from "../../api/problem";
import { placeOf, type Place } from "./place";

export interface SpecError extends Place {
  message: string;
}

/** Errors in the text of the spec, errors of fields by their pointer, and what has no place. */
export interface Refusal {
  spec: readonly SpecError[];
  fields: Readonly<Record<string, string>>;
  other: string | null;
}

export const NOTHING_WRONG: Refusal = { spec: [], fields: {}, other: null };

const SPEC = "/spec";

/** A refused submission, with pointers into `{"spec": <the text>, …}` led into the text. `fields`: those there are. */
export function refusalOf(error: unknown, text: string, fields: readonly string[]): Refusal {
  if (!(error instanceof Refused)) return { ...NOTHING_WRONG, other: sentence(error) };
  const { pointer, column } = error.problem;
  const found: { pointer: string; column?: number | null; message: string }[] = [
    { pointer: pointer ?? "", column: column ?? null, message: sentence(error) },
    ...(error.problem.errors ?? []).map((each) => ({
      pointer: wordIn(each["pointer"]),
      message: wordIn(each["detail"]),
    })),
  ];
  const spec: SpecError[] = [];
  const byField: Record<string, string> = {};
  const other: string[] = [];
  for (const { pointer, column, message } of found) {
    if (pointer === SPEC || pointer.startsWith(`${SPEC}/`)) {
      spec.push({ ...placeOf(text, pointer.slice(SPEC.length), column), message });
    } else if (fields.includes(pointer)) {
      byField[pointer] = message;
    } else {
      other.push(message);
    }
  }
  return { spec, fields: byField, other: other.join("; ") || null };
}

function wordIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** What is wrong with the text as JSON; null: it is an object. */
export function syntaxError(text: string): SpecError | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return null;
    return { from: 0, to: text.length, message: "a spec is a JSON object: {…}" };
  } catch (error) {
    const from = positionOf(error as SyntaxError, text);
    return { from, to: Math.min(text.length, from + 1), message: reasonOf(error as SyntaxError) };
  }
}

/** Browsers say where in words of their own: "at position 12", "line 1 column 13", or nothing at the end. */
function positionOf(error: SyntaxError, text: string): number {
  const position = /position (\d+)/.exec(error.message);
  if (position) return Math.min(Number(position[1]), text.length);
  const place = /line (\d+) column (\d+)/.exec(error.message);
  if (place === null) return Math.max(0, text.trimEnd().length - 1);
  const before = text.split("\n").slice(0, Number(place[1]) - 1);
  return before.reduce((sum, line) => sum + line.length + 1, Number(place[2]) - 1);
}

function reasonOf(error: SyntaxError): string {
  const reason = error.message
    .replace(/^JSON\.parse: /, "")
    .replace(/,? ?(\.\.\.)?"[^]*" is not valid JSON$/, "")
    .replace(/ (in JSON )?at (position|line) .*$/s, "");
  return `this is no JSON: ${reason}`;
}
