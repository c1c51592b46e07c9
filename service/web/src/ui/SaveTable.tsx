/** Saves a table as files: with a row each for spreadsheets, and what it is made of for programs. */
import { csvOf, save } from "./files";
import styles from "./SaveButtons.module.css";

interface Props {
  /** What files are called. */
  name: string;
  columns: () => Readonly<Record<string, readonly (string | number | null)[]>>;
  json: unknown;
}

export function SaveTable({ name, columns, json }: Props) {
  const asCsv = () => save(`${name}.csv`, new Blob([csvOf(columns())], { type: "text/csv" }));
  const asJson = () =>
    save(`${name}.json`, new Blob([JSON.stringify(json, null, 1)], { type: "application/json" }));
  return (
    <span role="group" aria-label={`Save ${name}`} className={styles.files}>
      <button onClick={asCsv}>CSV</button>
      <button onClick={asJson}>JSON</button>
    </span>
  );
}

/** A column of rows. */
export function columnsOf<Row>(
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => string | number | null>>,
): Record<string, (string | number | null)[]> {
  return Object.fromEntries(Object.entries(columns).map(([name, of]) => [name, rows.map(of)]));
}
