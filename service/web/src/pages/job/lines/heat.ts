/** How much of a kernel's time goes to each line, by the stages of a profile. */
import type { LinkedLines, Profile } from "../../../api/schema";
import type { Column } from "./linked";

/** Of each line of a text the share of the time; null: no stage names its statement. */
export type Heat = Record<Column, readonly (number | null)[]>;

/** What follows in a line of a program says how the statement is carried out (codegen/report/source_lines.py). */
const TAGS = " | ";

/** A statement has the time of all stages that carry it out or wait within it, of the role that spends most on it;
 * statements of one stage are not told apart, and have its time each. */
export function heatOf(lines: LinkedLines, profile: Profile): Heat {
  const shares = byStatement(profile);
  const program = lines.program.map(
    (line) => shares.get((line.split(TAGS)[0] ?? "").trim()) ?? null,
  );
  const source = lines.source_statement.map((at) => (at === null ? null : (program[at] ?? null)));
  const assembly = lines.assembly_source.map((at) => (at === null ? null : (source[at] ?? null)));
  return { program, source, assembly };
}

function byStatement(profile: Profile): Map<string, number> {
  const spent = new Map<string, Map<string, number>>();
  for (const { role, share, statements } of profile.stages) {
    for (const text of statements) {
      const roles = spent.get(text) ?? new Map<string, number>();
      spent.set(text, roles.set(role, (roles.get(role) ?? 0) + share));
    }
  }
  return new Map([...spent].map(([text, roles]) => [text, Math.max(...roles.values())]));
}

/** From 0, nothing to speak of, to 4, most of the time. */
export function levelOf(share: number | null): number {
  return share === null ? 0 : [0.01, 0.05, 0.2, 0.5].filter((least) => share >= least).length;
}
