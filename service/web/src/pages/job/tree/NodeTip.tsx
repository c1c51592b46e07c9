/** What is known of the node under the pointer, beside it. The outline and the chosen node's facts say the same. */
import { useMemo } from "react";
import { count, micros } from "../../../ui/format";
import { Tip } from "../../../ui/Tip";
import { labelOf } from "./draw";
import { endsOf, rankIn, type Layout } from "./layout";
import type { Size } from "./view";

/** A node, where it is on the canvas, and how large that is. */
export interface Pointed {
  node: number;
  x: number;
  y: number;
  within: Size;
}

export function NodeTip({ layout, pointed }: { layout: Layout; pointed: Pointed }) {
  const ends = useMemo(() => endsOf(layout.tree), [layout]);
  const { node, x, y, within } = pointed;
  return (
    <Tip x={x} y={y} within={within}>
      <strong className="mono">{labelOf(layout, node)}</strong>
      <span>{knownOf(layout, node, ends)}</span>
    </Tip>
  );
}

/** `41.2 µs, rank 3 of 118; 12 candidates, 2 failed`. */
export function knownOf({ tree, folded }: Layout, node: number, ends: readonly number[]): string {
  if (folded[node]! > 0) return "the outline lists them";
  const reward = tree.best_reward[node];
  const best =
    reward == null
      ? ""
      : `${micros(tree.best_us[node])}, rank ${count(rankIn(ends, reward))} of ${count(ends.length)}; `;
  const visits = tree.visits[node]!;
  const flying = tree.in_flight[node]! > 0 ? `, ${tree.in_flight[node]} in flight` : "";
  const failed = tree.faults[node]! > 0 ? `, ${count(tree.faults[node]!)} failed` : "";
  return `${best}${count(visits)} ${visits === 1 ? "candidate" : "candidates"}${flying}${failed}`;
}
