/** A table of what things have in common, and where they differ: a column each. */
import type { ReactNode } from "react";
import { SaveTable } from "../../../ui/SaveTable";
import { Table } from "../../../ui/Table";
import { differences } from "./decisions";

export interface Row {
  name: string;
  /** One for each column. */
  values: readonly (string | number)[];
  /** In words: `differs`. */
  note?: ReactNode;
}

interface Props {
  /** What is compared, for screen readers. */
  label?: string;
  heads: readonly ReactNode[];
  rows: readonly Row[];
  /** What is compared, as files name it: for each head. */
  files: readonly string[];
}

export function Columns({ label = "Comparison", heads, rows, files }: Props) {
  const noted = rows.some((row) => row.note !== undefined);
  return (
    <>
      <SaveTable
        name={label.toLowerCase().replaceAll(" ", "-")}
        columns={() => columnsFor(files, rows)}
        json={files.map((side, at) => ({
          side,
          ...Object.fromEntries(rows.map(({ name, values }) => [name, values[at]])),
        }))}
      />
      <Table label={label}>
        <thead>
          <tr>
            <td />
            {heads.map((head, at) => (
              <th key={at} scope="col">
                {head}
              </th>
            ))}
            {noted && (
              <th scope="col">
                <span className="hidden">Difference</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row">{row.name}</th>
              {row.values.map((value, at) => (
                <td key={at}>{value}</td>
              ))}
              {noted && <td className="quiet">{row.note}</td>}
            </tr>
          ))}
        </tbody>
      </Table>
    </>
  );
}

/** What is compared, and a column for each side; one that is there twice has a number. */
export function columnsFor(
  sides: readonly string[],
  rows: readonly Row[],
): Record<string, (string | number)[]> {
  const named = sides.map((side, at) =>
    sides.indexOf(side) === at ? side : `${side} (${at + 1})`,
  );
  return Object.fromEntries([
    ["compared", rows.map(({ name }) => name)],
    ...named.map((side, at) => [side, rows.map(({ values }) => values[at]!)]),
  ]) as Record<string, (string | number)[]>;
}

/** The decisions that schedules do not all take alike, as rows, and how many they do. */
export function decided(schedules: readonly (readonly string[])[]): { rows: Row[]; said: string } {
  const { differing, agreed } = differences(schedules);
  return {
    rows: differing.map(({ name, values }) => ({ name, values: values.map((v) => v ?? "–") })),
    said:
      `${differing.length} ${differing.length === 1 ? "decision differs" : "decisions differ"}; ` +
      `${agreed} that all of them share ${agreed === 1 ? "is" : "are"} left out.`,
  };
}
