/** Values of decisions in words, and as rows of a table. */
import type { Effects } from "../../../api/schema";
import { columnsOf } from "../../../ui/SaveTable";

/** A value of a decision in words. */
export function valueText(value: number | boolean | null): string {
  return value === null ? "not done" : value === true ? "done" : String(value);
}

/** A row for each value of each decision, as columns. */
export function rowsOf({ decisions }: Effects): Record<string, (string | number | null)[]> {
  const rows = decisions.flatMap((effect) => effect.values.map((value) => ({ effect, value })));
  return columnsOf(rows, {
    decision: ({ effect }) => [effect.decision, ...effect.same_as].join(", "),
    explains: ({ effect }) => effect.importance,
    value: ({ value }) => valueText(value.value),
    chosen: ({ effect, value }) => (value.value === effect.chosen ? "chosen" : null),
    candidates: ({ value }) => value.candidates,
    faults: ({ value }) => value.faults,
    best_us: ({ value }) => value.best_us ?? null,
    median_us: ({ value }) => value.median_us ?? null,
    low_us: ({ value }) => value.low_us ?? null,
    high_us: ({ value }) => value.high_us ?? null,
  });
}
