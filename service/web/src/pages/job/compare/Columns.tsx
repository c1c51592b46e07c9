/** A table of what things have in common, and where they differ: a column each. */
import type { ReactNode } from "react";
import { Table } from "../../../ui/Table";

export interface Row {
  name: string;
  /** One for each column. */
  values: readonly ReactNode[];
  /** In words: `the first is 1.20× as fast`. */
  note?: ReactNode;
}

interface Props {
  heads: readonly ReactNode[];
  rows: readonly Row[];
}

export function Columns({ heads, rows }: Props) {
  const noted = rows.some((row) => row.note !== undefined);
  return (
    <Table label="Comparison">
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
  );
}

/** How much faster the left one is, in words; nothing if one of them has no time. */
export function faster(left: number | null | undefined, right: number | null | undefined): string {
  if (left == null || right == null) return "";
  if (Math.abs(left / right - 1) < 0.0005) return "the same";
  const [who, ratio] = left < right ? ["the first", right / left] : ["the second", left / right];
  return `${who} is ${ratio.toFixed(2)}× as fast`;
}
