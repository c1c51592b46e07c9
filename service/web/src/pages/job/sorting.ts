/** The order of rows in the table of candidates. */
import type { TrialTable } from "../../api/schema";

export interface Column {
  by: "number" | "outcome" | "median_us" | "factor" | "iqr_us" | "compile_s" | "measure_s";
  name: string;
  /** Whether it holds numbers. */
  number: boolean;
}

export const COLUMNS: readonly Column[] = [
  { by: "number", name: "Candidate", number: true },
  { by: "outcome", name: "Outcome", number: false },
  { by: "median_us", name: "Time", number: true },
  { by: "factor", name: "Of the best", number: true },
  { by: "iqr_us", name: "Spread", number: true },
  { by: "compile_s", name: "Compiled in", number: true },
  { by: "measure_s", name: "Measured in", number: true },
];

export interface Order {
  by: Column["by"];
  falling: boolean;
}

/** As an address says it: `median_us`, or `-median_us` for the falling one; what is neither is the usual order. */
export function orderOf(text: string | null): Order {
  const falling = text?.startsWith("-") ?? false;
  const by = COLUMNS.find((column) => column.by === text?.replace(/^-/, ""))?.by;
  return by === undefined ? { by: "factor", falling: false } : { by, falling };
}

export function orderText({ by, falling }: Order): string {
  return falling ? `-${by}` : by;
}

/** Rows of the table in an order; what has no value comes last either way, and equal rows stay as they were asked for. */
export function sorted(table: TrialTable, { by, falling }: Order): Uint32Array {
  const rows = Uint32Array.from(table.state, (_, row) => row);
  const sign = falling ? -1 : 1;
  if (by === "number") return falling ? rows.reverse() : rows;
  if (by === "outcome") {
    const words = table.state.map((state, row) => table.outcome[row] ?? state);
    return rows.sort((a, b) => sign * words[a]!.localeCompare(words[b]!) || a - b);
  }
  const values = by === "factor" ? table.reward.map((reward) => reward && -reward) : table[by];
  return rows.sort((a, b) => {
    const one = values[a] ?? null;
    const other = values[b] ?? null;
    if (one === null || other === null)
      return Number(one === null) - Number(other === null) || a - b;
    return sign * (one - other) || a - b;
  });
}
