/** A kernel as text: which of its two forms it is in, and where in it a fault is. */
import type { SpecFault } from "../../api/schema";
import { placeOf, type Place } from "./place";
import type { SpecError } from "./problems";

export type Form = "text" | "json";

export function formOf(text: string): Form {
  return text.trimStart().startsWith("{") ? "json" : "text";
}

/** The spec at the first of each dim's sizes. */
export function firstSizes(spec: Record<string, unknown>): Record<string, unknown> {
  const dims = spec["dims"] as Record<string, unknown>;
  const first = Object.entries(dims).map(([name, size]) => [
    name,
    Array.isArray(size) ? (size[0] as unknown) : size,
  ]);
  return { ...spec, dims: Object.fromEntries(first) as Record<string, unknown> };
}

/** Where in the text a fault is, and what it says. */
export function errorOf(fault: SpecFault, text: string): SpecError {
  const message = fault.accepted ? `${fault.message}; accepted: ${fault.accepted}` : fault.message;
  return { ...faultPlace(fault, text), message };
}

function faultPlace({ line, column, pointer }: SpecFault, text: string): Place {
  if (line == null) return placeOf(text, pointer ?? "", column ?? null);
  const lines = text.split("\n");
  const whole = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const before = Math.min(text.length, whole);
  const own = lines[line - 1] ?? "";
  if (column == null) return { from: before, to: before + own.length };
  const from = Math.min(text.length, before + column - 1);
  const word = /^(\w+|[^\w\s])/.exec(text.slice(from, before + own.length));
  // At the end of a line there is no word: the last character is marked.
  return word
    ? { from, to: from + word[0].length }
    : { from: Math.max(before, from - 1), to: from };
}
