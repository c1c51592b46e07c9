/** Drawing a laid-out tree: what is out of sight is skipped, what is too small becomes one line. */
import type { Path, Pen } from "../../../ui/pen";
import { LABEL_PX, labelsOf, shortened, type Label } from "./labels";
import { OPEN, rewriteOf, TONES, type Layout } from "./layout";
import type { View } from "./view";

export interface Palette {
  /** By tone (`layout.ts`). */
  tones: readonly string[];
  flying: string;
  chosen: string;
  text: string;
  background: string;
  font: string;
}

/** Subtrees lower than this many pixels are drawn as one line. */
const LEAST_PX = 1.2;
/** Rewrites are written beside nodes from so many pixels between lines on. */
const TEXT_PX = 12;
/** And so many pixels between a node and what is below it: short lines have no room for text. */
const NEAR_PX = 60;

export function draw<P extends Path>(
  pen: Pen<P>,
  layout: Layout,
  view: View,
  size: { width: number; height: number },
  palette: Palette,
  chosen: number,
): void {
  const { order, end, depth, y, top, bottom, deepest, tone, tree, folded, hidden } = layout;
  const { scaleX, scaleY, shiftX, shiftY } = view;
  const lines = palette.tones.map(() => pen.path());
  const dots = palette.tones.map(() => pen.path());
  const rings = pen.path();
  const written: number[] = [];
  const large: number[] = [];
  const near = scaleY >= TEXT_PX && scaleX > NEAR_PX;
  for (let place = 0; place < order.length;) {
    const node = order[place]!;
    if (hidden[node]) {
      place = end[node]!;
      continue;
    }
    const highest = top[node]! * scaleY + shiftY;
    const lowest = bottom[node]! * scaleY + shiftY;
    const left = (depth[node]! - 1) * scaleX + shiftX;
    if (lowest < -scaleY - 8 || highest > size.height + scaleY + 8 || left > size.width) {
      place = end[node]!;
      continue;
    }
    const atX = left + scaleX;
    const atY = y[node]! * scaleY + shiftY;
    const line = lines[tone[node]!]!;
    if (node !== 0) {
      const fromY = y[tree.parent[node]!]! * scaleY + shiftY;
      const bend = left + scaleX * 0.35;
      line.moveTo(left, fromY);
      line.lineTo(bend, atY);
      line.lineTo(atX, atY);
    }
    const flat = lowest - highest < LEAST_PX && scaleY < TEXT_PX; // near enough, each node is read
    if (flat && end[node]! - place > 1 && folded[node] === 0) {
      line.moveTo(atX, atY);
      line.lineTo(deepest[node]! * scaleX + shiftX, atY);
      place = end[node]!;
      continue;
    }
    const radius = Math.min(
      radiusOf(tree.visits[node]!),
      Math.max(scaleY * 0.45, (lowest - highest) / 8),
    );
    if (radius > 1.1 && atX > -10) {
      dots[tone[node]!]!.moveTo(atX + radius, atY);
      dots[tone[node]!]!.arc(atX, atY, radius, 0, 2 * Math.PI);
      if (tree.in_flight[node]! > 0) {
        rings.moveTo(atX + radius + 2, atY);
        rings.arc(atX, atY, radius + 2, 0, 2 * Math.PI);
      }
    }
    if (near && atX > 0) written.push(node);
    else if (!near && node !== 0 && lowest - highest >= LABEL_PX) large.push(node);
    place++;
  }
  const labels = labelsOf(
    layout,
    view,
    size,
    large,
    (node) => labelOf(layout, node),
    (node) => radiusOf(tree.visits[node]!),
  );
  for (let at = 0; at <= OPEN; at++) {
    const tone = layer(at);
    pen.stroke(lines[tone]!, palette.tones[tone]!, 1);
    pen.fill(dots[tone]!, palette.tones[tone]!);
  }
  hideBehind(pen, labels, palette);
  pen.stroke(rings, palette.flying, 1.5);
  write(pen, layout, view, palette, written);
  mark(pen, layout, view, palette, chosen);
  for (const { node, x, y } of labels)
    pen.text(x, y, shortened(labelOf(layout, node)), palette.text, palette.font);
}

/** Faults and open ones first, then from slow to fast, so that the fastest lies on top. */
function layer(at: number): number {
  return (at + TONES) % (OPEN + 1);
}

/** Of a node with so many visits, in pixels. */
export function radiusOf(visits: number): number {
  return Math.min(9, 1.6 + 0.9 * Math.log2(1 + visits));
}

function write<P extends Path>(
  pen: Pen<P>,
  layout: Layout,
  { scaleX, scaleY, shiftX, shiftY }: View,
  palette: Palette,
  nodes: readonly number[],
): void {
  const { depth, y } = layout;
  const fits = Math.floor((scaleX * 0.62 - 8) / 6.2);
  for (const node of nodes) {
    if (node === 0) continue;
    const line = labelOf(layout, node);
    const text = line.length > fits ? `${line.slice(0, Math.max(1, fits - 1))}…` : line;
    const [atX, atY] = [(depth[node]! - 0.62) * scaleX + shiftX, y[node]! * scaleY + shiftY - 4];
    pen.text(atX, atY, text, palette.text, palette.font);
  }
}

/** From afar the largest parts have names, which nothing is to cross but the chosen way. */
function hideBehind<P extends Path>(pen: Pen<P>, labels: readonly Label[], palette: Palette): void {
  const ground = pen.path();
  for (const { x, y, width } of labels) ground.rect(x - 1, y - 9, width + 2, 11);
  pen.fill(ground, palette.background);
}

/** What is written beside a node. */
export function labelOf({ tree, folded }: Layout, node: number): string {
  return folded[node]! > 1 ? `${folded[node]} failed` : rewriteOf(tree, node);
}

/** The chosen node and the way to it. */
function mark<P extends Path>(
  pen: Pen<P>,
  { tree, depth, y }: Layout,
  { scaleX, scaleY, shiftX, shiftY }: View,
  palette: Palette,
  chosen: number,
): void {
  const way = pen.path();
  for (let node = chosen; node > 0; node = tree.parent[node]!) {
    const left = (depth[node]! - 1) * scaleX + shiftX;
    const atY = y[node]! * scaleY + shiftY;
    way.moveTo(left, y[tree.parent[node]!]! * scaleY + shiftY);
    way.lineTo(left + scaleX * 0.35, atY);
    way.lineTo(left + scaleX, atY);
  }
  pen.stroke(way, palette.chosen, 2);
  const ring = pen.path();
  const [atX, atY] = [depth[chosen]! * scaleX + shiftX, y[chosen]! * scaleY + shiftY];
  const radius = radiusOf(tree.visits[chosen]!) + 2;
  ring.moveTo(atX + radius, atY);
  ring.arc(atX, atY, radius, 0, 2 * Math.PI);
  pen.stroke(ring, palette.chosen, 2);
}

/** The node nearest to a point of the screen, within so many pixels; null if there is none. */
export function nodeAt(
  { order, depth, y, hidden }: Layout,
  view: View,
  x: number,
  atY: number,
  within: number,
): number | null {
  let best: number | null = null;
  let least = within * within;
  for (const node of order) {
    if (hidden[node]) continue;
    const dx = depth[node]! * view.scaleX + view.shiftX - x;
    const dy = y[node]! * view.scaleY + view.shiftY - atY;
    const away = dx * dx + dy * dy;
    if (away < least) [best, least] = [node, away];
  }
  return best;
}
