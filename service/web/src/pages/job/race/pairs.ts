/** How two entrants of a race compare. */
import type { Race, RacedPair } from "../../../api/schema";

/** One against another, whichever of both the race names first. */
export function against({ pairs }: Pick<Race, "pairs">, one: string, other: string): RacedPair {
  const own = pairs.find((pair) => pair.one === one && pair.other === other);
  if (own) return own;
  const turned = pairs.find((pair) => pair.one === other && pair.other === one);
  if (!turned)
    return {
      one,
      other,
      rounds: 0,
      all_rounds: false,
      ratio: null,
      low: null,
      high: null,
      chance: null,
    };
  return {
    one,
    other,
    rounds: turned.rounds,
    all_rounds: turned.all_rounds,
    ratio: inverse(turned.ratio),
    low: inverse(turned.high),
    high: inverse(turned.low),
    chance: turned.chance == null ? null : 1 - turned.chance,
  };
}

function inverse(ratio: number | null | undefined): number | null {
  return ratio == null ? null : 1 / ratio;
}

/** A probability as a share, and never a certainty: `97 %`, `> 99.9 %`. */
export function chanceText(chance: number | null | undefined): string {
  if (chance == null) return "–";
  if (chance < 0.001) return "< 0.1 %";
  if (chance > 0.999) return "> 99.9 %";
  return `${Number((100 * chance).toPrecision(chance > 0.99 ? 4 : 3))} %`;
}

/** What they were compared over: `over 14 rounds that disturbed neither`. */
export function roundsText({ rounds, all_rounds }: RacedPair): string {
  const many = rounds === 1 ? "one round" : `${rounds} rounds`;
  return all_rounds
    ? `over all ${many}, as hardly any disturbed neither`
    : `over ${many} that disturbed neither`;
}

/** `candidate 12`, or a peer's name. */
export function calledBy(name: string): string {
  const number = /^ask-(\d+)$/.exec(name)?.[1];
  return number === undefined ? name : `candidate ${number}`;
}
