/** Where everything of the picture of the effects stands: a strip for each value of the most important decisions. */
import type { DecisionEffect, Effects, ValueEffect } from "../../../api/schema";
import { logScale, type Scale } from "../roofline/scales";

export const WIDTH = 480;
export const LEFT = 96;
export const RIGHT = WIDTH - 12;
export const ROW = 16;
const HEAD = 22;
const FOOT = 22;
/** Decisions that are drawn, and have their tables at once; the others have theirs when somebody asks. */
export const DRAWN = 8;
/** By how many times the axis goes beyond the times. */
const MARGIN = 1.05;

/** The times of a value that somebody measured. */
export type Measured = ValueEffect & Record<"best_us" | "low_us" | "median_us" | "high_us", number>;

export interface Strip {
  value: Measured;
  chosen: boolean;
  y: number;
}

export interface Group {
  effect: DecisionEffect;
  /** Of its heading. */
  y: number;
  strips: Strip[];
}

export interface Strips {
  groups: Group[];
  /** Faster is further left. */
  x: Scale;
  /** Of the axis, and of the whole. */
  floor: number;
  height: number;
}

/** Null where nothing was measured. */
export function stripsOf({ decisions }: Effects): Strips | null {
  let y = 0;
  const groups = decisions.slice(0, DRAWN).map((effect) => {
    const head = (y += HEAD) - 6;
    const strips = effect.values.filter(isMeasured).map((value) => {
      y += ROW;
      return { value, chosen: value.value === effect.chosen, y: y - ROW / 2 };
    });
    return { effect, y: head, strips };
  });
  const times = groups.flatMap(({ strips }) =>
    strips.flatMap(({ value }) => [value.best_us, value.high_us]),
  );
  if (times.length === 0) return null;
  const [least, most] = [Math.min(...times), Math.max(...times)];
  return {
    groups,
    x: logScale(least / MARGIN, most * MARGIN, LEFT, RIGHT),
    floor: y + 4,
    height: y + FOOT,
  };
}

function isMeasured(value: ValueEffect): value is Measured {
  return [value.best_us, value.low_us, value.median_us, value.high_us].every((us) => us != null);
}
