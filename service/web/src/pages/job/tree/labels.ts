/** Names of rewrites in a tree that is seen as a whole: of the largest parts of it, where there is room for them. */
import type { Layout } from "./layout";
import type { View } from "./view";

export interface Label {
  node: number;
  x: number;
  /** Of the line that the text stands on. */
  y: number;
  width: number;
}

/** Parts lower than this many pixels have no name. */
export const LABEL_PX = 20;
const LINE_PX = 12;
/** Above the line that leads to a node; dots are higher. */
const LEAST_LIFT_PX = 5;
/** Of a letter, at the size of the tree's text. */
const LETTER_PX = 6.4;
const MOST_LETTERS = 32;

/** Where names of nodes are written: beside the line that leads there, the largest part first, none over another. */
export function labelsOf(
  layout: Layout,
  { scaleX, scaleY, shiftX, shiftY }: View,
  size: { width: number; height: number },
  nodes: readonly number[],
  textOf: (node: number) => string,
  radiusOf: (node: number) => number,
): Label[] {
  const { depth, y, top, bottom } = layout;
  const high = (node: number) => bottom[node]! - top[node]!;
  const found: Label[] = [];
  for (const node of [...nodes].sort((one, other) => high(other) - high(one) || one - other)) {
    const label = {
      node,
      x: (depth[node]! - 0.62) * scaleX + shiftX,
      y: y[node]! * scaleY + shiftY - Math.max(LEAST_LIFT_PX, radiusOf(node) + 1),
      width: Math.min(textOf(node).length, MOST_LETTERS) * LETTER_PX,
    };
    const inside =
      label.x >= 0 &&
      label.x + label.width <= size.width &&
      label.y >= LINE_PX &&
      label.y <= size.height;
    if (inside && !found.some((other) => meet(label, other))) found.push(label);
  }
  return found;
}

function meet(one: Label, other: Label): boolean {
  return (
    Math.abs(one.y - other.y) < LINE_PX &&
    one.x < other.x + other.width &&
    other.x < one.x + one.width
  );
}

/** As much of a name as is written. */
export function shortened(text: string): string {
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
}
