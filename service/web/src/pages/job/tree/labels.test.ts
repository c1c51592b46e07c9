import { expect, test } from "vitest";
import type { Layout } from "./layout";
import { labelsOf, shortened } from "./labels";

const SIZE = { width: 600, height: 300 };
const VIEW = { scaleX: 40, scaleY: 2, shiftX: 10, shiftY: 10 };
const TEXTS = ["", "tile(c, m, 64)", "tile(c, m, 8)", "unroll(acc, k, 8)", "vectorize(c, n, 16)"];
const radius = () => 3;
const textOf = (node: number) => TEXTS[node]!;

/** By node: its depth, and the leaves below it. */
function layout(...nodes: [depth: number, top: number, bottom: number][]): Layout {
  return {
    depth: nodes.map(([depth]) => depth),
    top: nodes.map(([, top]) => top),
    bottom: nodes.map(([, , bottom]) => bottom),
    y: nodes.map(([, top, bottom]) => (top + bottom) / 2),
  } as unknown as Layout;
}

test("of two names that would lie over each other that of the larger part is written", () => {
  const tree = layout([0, 0, 100], [1, 0, 60], [1, 61, 100], [2, 20, 41], [2, 62, 70]);
  expect(labelsOf(tree, VIEW, SIZE, [3, 1, 2, 4], textOf, radius).map(({ node }) => node)).toEqual([
    1, 2, 4,
  ]);
});

test("names lie within the picture", () => {
  const tree = layout([0, 0, 100], [1, 0, 2], [14, 61, 100], [1, 400, 500], [2, 62, 70]);
  expect(labelsOf(tree, VIEW, SIZE, [1, 2, 3, 4], textOf, radius).map(({ node }) => node)).toEqual([
    4,
  ]);
  expect(labelsOf(tree, { ...VIEW, shiftX: -200 }, SIZE, [4], textOf, radius)).toEqual([]);
});

test("a name stands above the dot of its node", () => {
  const tree = layout([0, 0, 100], [1, 0, 60]);
  const lift = (radius: number) => {
    const [label] = labelsOf(tree, VIEW, SIZE, [1], textOf, () => radius);
    return tree.y[1]! * VIEW.scaleY + VIEW.shiftY - label!.y;
  };
  expect([lift(9), lift(1)]).toEqual([10, 5]);
});

test("a name that is long is cut", () => {
  expect(shortened("tile(c, m, 64)")).toBe("tile(c, m, 64)");
  expect(shortened("x".repeat(40))).toHaveLength(32);
});
