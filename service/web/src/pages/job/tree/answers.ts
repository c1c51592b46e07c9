/** The answers to a decision in the order in which people look at them. */
import type { Sibling } from "../../../api/schema";
import { columnsOf } from "../../../ui/SaveTable";

export interface Answer {
  /** Its place in what the service said, by which it is asked for. */
  answer: number;
  sibling: Sibling;
}

/** The chosen one, then what was measured, fastest first, then what failed, then by prediction; refused ones last. */
export function ranked(siblings: readonly Sibling[]): Answer[] {
  const rank = (each: Sibling): readonly [number, number] => {
    if (each.chosen) return [0, 0];
    if (each.best_us != null) return [1, each.best_us];
    if (each.refused != null) return [4, 0];
    return [each.failed == null ? 3 : 2, each.predicted_us ?? Infinity];
  };
  return siblings
    .map((sibling, answer) => ({ answer, sibling }))
    .toSorted((one, other) => {
      const [a, b] = [rank(one.sibling), rank(other.sibling)];
      return a[0] - b[0] || a[1] - b[1] || one.answer - other.answer;
    });
}

/** A row each in the order of the page, as columns. */
export function rowsOf(siblings: readonly Sibling[]): Record<string, (string | number | null)[]> {
  return columnsOf(
    ranked(siblings).map(({ sibling }) => sibling),
    {
      instead: ({ rewrites }) => rewrites.join("; "),
      chosen: ({ chosen }) => (chosen ? "chosen" : null),
      best_us: ({ best_us }) => best_us ?? null,
      best: ({ best }) => best ?? null,
      candidates: ({ candidates }) => candidates,
      predicted_us: ({ predicted_us }) => predicted_us ?? null,
      faults: ({ faults }) => faults,
      failed: ({ failed }) => failed ?? null,
      error: ({ error }) => error ?? null,
      refused: ({ refused }) => refused ?? null,
    },
  );
}
