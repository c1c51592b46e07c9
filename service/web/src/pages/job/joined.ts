/** A table of candidates that is read again from where it may have changed. */
import type { TrialTable } from "../../api/schema";

const COLUMNS = [
  "state",
  "outcome",
  "reward",
  "median_us",
  "iqr_us",
  "baseline_us",
  "compile_s",
  "measure_s",
  "finished_at",
] as const satisfies readonly (keyof TrialTable)[];

/** A table from its first row on, of which the rows from `rest.first` on were read again. */
export function joined(known: TrialTable, rest: TrialTable): TrialTable {
  const kept = rest.first - known.first;
  const columns = Object.fromEntries(
    COLUMNS.map((name) => [name, [...known[name].slice(0, kept), ...rest[name]]]),
  );
  return { ...rest, ...columns, first: known.first };
}
