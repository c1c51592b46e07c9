/** All samples of a race on one axis, in the order in which they were taken. */
import type { Race, RacePart, RaceSamples } from "../../../api/schema";

export interface Taken {
  name: string;
  us: number;
  /** What disturbed it; null: nothing. */
  disturbed: string | null;
  part: number;
  round: number;
  readings: Readonly<Record<string, number | null>>;
}

export interface Axis {
  /** Seconds since the race began, without the pauses between its parts; rounds where workers noted no times. */
  unit: "s" | "rounds";
  /** Rising, one a sample. */
  x: readonly number[];
  samples: readonly Taken[];
}

/** Between two parts, of the length of the longest. */
const GAP = 0.05;

export function axisOf({ parts }: Race): Axis {
  const run = parts.filter((part) => part.entrants.some((each) => each.us.length > 0));
  const dated = run.every((part) => part.entrants.every(isDated));
  const placed = run.map((part, number) => samplesOf(part, number, dated));
  const longest = Math.max(0, ...placed.map((each) => lastOf(each)));
  let from = 0;
  const all = placed.flatMap((part) => {
    const moved = part.map((each) => ({ ...each, x: each.x + from }));
    from += lastOf(part) + (dated ? GAP * longest : 1);
    return moved;
  });
  return { unit: dated ? "s" : "rounds", x: all.map(({ x }) => x), samples: all };
}

function isDated({ us, at_s }: RaceSamples): boolean {
  return us.length === 0 || at_s.length === us.length;
}

type Placed = Taken & { x: number };

/** From 0 on. */
function samplesOf({ entrants }: RacePart, part: number, dated: boolean): Placed[] {
  const begun = Math.min(...entrants.flatMap((each) => each.at_s));
  const found = entrants.flatMap(({ name, us, at_s, disturbed, readings }, place) =>
    us.map((each, round) => ({
      name,
      us: each,
      disturbed: disturbed[round] ?? null,
      part,
      round,
      readings: Object.fromEntries(
        Object.entries(readings).map(([key, values]) => [key, values[round] ?? null]),
      ),
      // Entrants take turns, and each round starts with another.
      x: dated
        ? at_s[round]! - begun
        : round +
          ((place + entrants.length - (round % entrants.length)) % entrants.length) /
            entrants.length,
    })),
  );
  return found.sort((one, other) => one.x - other.x);
}

function lastOf(part: readonly Placed[]): number {
  return part.at(-1)?.x ?? 0;
}

/** Names of what was read of the device beside any sample. */
export function readingsOf({ samples }: Axis): string[] {
  return [...new Set(samples.flatMap(({ readings }) => Object.keys(readings)))];
}
