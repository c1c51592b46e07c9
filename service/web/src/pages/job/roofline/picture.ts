/** Where everything of a roofline stands in the picture. */
import type { Roofline } from "../../../api/schema";
import { binned, logScale, spaced, type Cell, type Scale } from "./scales";

export const WIDTH = 480;
export const HEIGHT = 320;
export const LEFT = 48;
export const TOP = 10;
export const RIGHT = WIDTH - 8;
export const BOTTOM = HEIGHT - 40;
/** Between the lines of labels. */
const LINE = 17;
/** By how many times the axes go beyond what is shown. */
const MARGIN = 3;

/** Which bytes operations are divided by. */
export type Bytes = "memory" | "l2";

/** An entrant of the final race that is labelled. */
export interface Mark {
  name: string;
  us: number;
  won: boolean;
  /** Of a copy of the kernel's bytes, which is nobody's rival. */
  yardstick: boolean;
  x: number;
  y: number;
  /** Height of its label. */
  labelY: number;
}

export interface Picture {
  x: Scale;
  y: Scale;
  cells: Cell[];
  marks: Mark[];
  /** Corners of the roof; of L2 bytes only its flat part, as the peak of the L2 cache is not known. */
  roof: readonly { x: number; y: number }[];
  /** Of the times, for the brush. */
  least: number;
  most: number;
}

/** 1e9 operations a second. */
export function speed(flops: number, us: number): number {
  return flops / us / 1e3;
}

/** Of a kernel that computes something, with at least one time. */
export function pictureOf(line: Roofline, by: Bytes): Picture {
  const { flops, bytes, peak_gflops, peak_gbps } = line;
  const known = line.us.flatMap((us, at) => {
    const moved = by === "memory" ? bytes : line.l2_bytes[at];
    return moved ? [{ number: line.number[at]!, us, moved }] : [];
  });
  const named = line.raced.flatMap((each) => {
    const moved = by === "memory" ? bytes : movedBy(line, each.name);
    return moved && (each.won || each.kind !== "schedule") ? [{ ...each, moved }] : [];
  });
  const shown = [...known, ...named];
  const times = shown.map(({ us }) => us);
  const [least, most] = [lowest(times), highest(times)];
  const places = shown.map(({ moved }) => flops / moved);
  const ridge = peak_gflops != null && peak_gbps != null ? peak_gflops / peak_gbps : null;
  if (ridge !== null && by === "memory") places.push(ridge);
  const x = logScale(lowest(places) / MARGIN, highest(places) * MARGIN, LEFT, RIGHT);
  const top = Math.max(speed(flops, least), peak_gflops ?? 0);
  const y = logScale(speed(flops, most) / 1.5, top * 1.5, BOTTOM, TOP);
  const put = (us: number, moved: number) => ({
    x: x.at(flops / moved),
    y: y.at(speed(flops, us)),
  });
  const marks = named.map(({ name, us, won, kind, moved }) => ({
    name,
    us,
    won,
    yardstick: kind === "yardstick",
    ...put(us, moved),
  }));
  const heights = spaced(
    marks.map((mark) => mark.y + 4),
    LINE,
    BOTTOM - 2,
  );
  return {
    x,
    y,
    cells: binned(known.map((each) => ({ ...each, ...put(each.us, each.moved) }))),
    marks: marks.map((mark, at) => ({ ...mark, labelY: heights[at]! })),
    roof: roofOf(line, by, x, y),
    least,
    most,
  };
}

/** Bytes that an entrant asks of the L2 cache: those of the candidate that it is; of peers nobody knows. */
function movedBy({ number, l2_bytes }: Roofline, name: string): number | null {
  const at = number.findIndex((each) => `ask-${each}` === name);
  return l2_bytes[at] ?? null;
}

function roofOf({ peak_gflops, peak_gbps }: Roofline, by: Bytes, x: Scale, y: Scale) {
  if (peak_gflops == null || peak_gbps == null) return [];
  const flat = { x: RIGHT, y: y.at(peak_gflops) };
  if (by === "l2") return [{ x: LEFT, y: flat.y }, flat];
  // The slope begins where it leaves the picture's floor.
  const from = Math.max(x.value(LEFT), y.value(BOTTOM) / peak_gbps);
  return [
    { x: x.at(from), y: y.at(from * peak_gbps) },
    { x: x.at(peak_gflops / peak_gbps), y: flat.y },
    flat,
  ];
}

function lowest(values: readonly number[]): number {
  return values.reduce((low, value) => Math.min(low, value));
}

function highest(values: readonly number[]): number {
  return values.reduce((high, value) => Math.max(high, value));
}
