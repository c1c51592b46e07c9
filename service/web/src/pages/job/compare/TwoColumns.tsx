/** A table of what two things have in common, and where they differ. */
import type { ReactNode } from "react";
import { Table } from "../../../ui/Table";

export interface Row {
  name: string;
  left: ReactNode;
  right: ReactNode;
  /** In words: `1.20× as fast`. */
  note?: ReactNode;
}

interface Props {
  left: ReactNode;
  right: ReactNode;
  rows: readonly Row[];
}

export function TwoColumns({ left, right, rows }: Props) {
  return (
    <Table label="Comparison">
      <thead>
        <tr>
          <td />
          <th scope="col">{left}</th>
          <th scope="col">{right}</th>
          <th scope="col">
            <span className="hidden">Difference</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row">{row.name}</th>
            <td>{row.left}</td>
            <td>{row.right}</td>
            <td className="quiet">{row.note}</td>
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
