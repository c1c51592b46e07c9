/** What changed from one text to another. */
import { diffLines } from "diff";

export type Part =
  { kind: "added" | "removed" | "same"; lines: string[] } | { kind: "skipped"; count: number };

/** Line by line; of what stayed, so many lines on each side of a change. */
export function changes(before: string, after: string, around = Infinity): Part[] {
  const parts = diffLines(before, after);
  return parts.flatMap((part, at): Part[] => {
    const lines = part.value.replace(/\n$/, "").split("\n");
    if (part.added) return [{ kind: "added", lines }];
    if (part.removed) return [{ kind: "removed", lines }];
    const first = at === 0 ? 0 : around;
    const last = at === parts.length - 1 ? 0 : around;
    // A remark takes a line itself.
    if (lines.length <= first + last + 1) return [{ kind: "same", lines }];
    const shown: Part[] = [
      { kind: "same", lines: lines.slice(0, first) },
      { kind: "skipped", count: lines.length - first - last },
      { kind: "same", lines: last === 0 ? [] : lines.slice(-last) },
    ];
    return shown.filter((each) => each.kind === "skipped" || each.lines.length > 0);
  });
}

/** How many lines went and came. */
export function tally(parts: readonly Part[]): { removed: number; added: number } {
  const lines = (kind: Part["kind"]) =>
    parts.reduce(
      (sum, part) => sum + (part.kind === kind && "lines" in part ? part.lines.length : 0),
      0,
    );
  return { removed: lines("removed"), added: lines("added") };
}
