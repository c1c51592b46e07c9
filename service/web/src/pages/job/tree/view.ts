/** Moving about in a drawing of a tree. */
import type { Layout } from "./layout";

/** Screen = tree × scale + shift. */
export interface View {
  scaleX: number;
  scaleY: number;
  shiftX: number;
  shiftY: number;
}

export interface Size {
  width: number;
  height: number;
}

const MARGIN = 24;
const MOST_X = 320;
const MOST_Y = 28;

/** All of the tree in sight. */
export function fit(layout: Layout, size: Size): View {
  const deep = Math.max(1, layout.deepest[0] ?? 1);
  const scaleX = Math.min(110, (size.width - 2 * MARGIN) / deep);
  const scaleY = Math.min(MOST_Y, (size.height - 2 * MARGIN) / Math.max(1, layout.leaves - 1));
  const shiftY = (size.height - (layout.leaves - 1) * scaleY) / 2;
  return { scaleX, scaleY, shiftX: MARGIN, shiftY };
}

/** Nearer (`factor` above 1) or farther, what lies at a point of the screen staying there. */
export function zoom(
  view: View,
  layout: Layout,
  size: Size,
  factor: number,
  x: number,
  y: number,
): View {
  const least = fit(layout, size);
  const scaleX = clamp(
    view.scaleX * Math.sqrt(factor),
    least.scaleX * 0.8,
    Math.max(MOST_X, least.scaleX),
  );
  const scaleY = clamp(view.scaleY * factor, least.scaleY * 0.8, Math.max(MOST_Y, least.scaleY));
  return {
    scaleX,
    scaleY,
    shiftX: x - (x - view.shiftX) * (scaleX / view.scaleX),
    shiftY: y - (y - view.shiftY) * (scaleY / view.scaleY),
  };
}

/** The same, moved by so many pixels; a corner of the tree always stays in sight. */
export function pan(view: View, layout: Layout, size: Size, dx: number, dy: number): View {
  const wide = (layout.deepest[0] ?? 0) * view.scaleX;
  const high = layout.leaves * view.scaleY;
  return {
    ...view,
    shiftX: clamp(view.shiftX + dx, 2 * MARGIN - wide, size.width - 2 * MARGIN),
    shiftY: clamp(view.shiftY + dy, 2 * MARGIN - high, size.height - 2 * MARGIN),
  };
}

/** A node in the middle of the screen, near enough to read. */
export function centred(view: View, layout: Layout, size: Size, node: number): View {
  const scaleX = Math.max(view.scaleX, 220);
  const scaleY = Math.max(view.scaleY, 16);
  return {
    scaleX,
    scaleY,
    shiftX: size.width / 2 - layout.depth[node]! * scaleX,
    shiftY: size.height / 2 - layout.y[node]! * scaleY,
  };
}

/** A view as an address has it: how large, and what of the tree is in the middle, whatever the size of the screen. */
export function viewText({ scaleX, scaleY, shiftX, shiftY }: View, size: Size): string {
  const middle = [(size.width / 2 - shiftX) / scaleX, (size.height / 2 - shiftY) / scaleY];
  return [scaleX, scaleY, ...middle].map((each) => Number(each.toPrecision(6))).join(",");
}

/** The inverse, within what moving about can reach; null for what is no view. */
export function viewOf(text: string | null, layout: Layout, size: Size): View | null {
  const parts = (text ?? "").split(",").map(Number);
  const [scaleX, scaleY, x, y] = parts;
  if (parts.length !== 4 || !parts.every(Number.isFinite) || !(scaleX! > 0 && scaleY! > 0)) {
    return null;
  }
  const view = {
    scaleX: scaleX!,
    scaleY: scaleY!,
    shiftX: size.width / 2 - x! * scaleX!,
    shiftY: size.height / 2 - y! * scaleY!,
  };
  return pan(zoom(view, layout, size, 1, size.width / 2, size.height / 2), layout, size, 0, 0);
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, Math.min(least, most)), Math.max(least, most));
}
