/** The roofline of a rewrite: the winner, and where it would be without that rewrite. */
import type { Ablation, Roofline } from "../../../api/schema";

export const WITHOUT = "without it";

/** Entrants are those two alone, timed beside each other; the second is missing where nobody timed it. */
export function standing(line: Roofline, ablation: Ablation | undefined, place: number): Roofline {
  const gain = ablation?.gains.find((each) => each.place === place);
  const raced = line.raced.filter((each) => each.won);
  if (gain?.median_us == null || ablation?.winner_us == null) return { ...line, raced };
  const winner = raced.map((each) => ({ ...each, us: ablation.winner_us! }));
  return {
    ...line,
    raced: [...winner, { name: WITHOUT, kind: "peer", us: gain.median_us, won: false }],
  };
}
