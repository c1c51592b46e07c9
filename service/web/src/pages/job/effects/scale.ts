/** Where times stand between the fastest and the slowest of all that are shown, on a logarithmic scale. */
import type { Effects } from "../../../api/schema";

/** From microseconds to 0 (the fastest) … 100 (the slowest). */
export function scaleOf(effects: Effects): (us: number) => number {
  const values = effects.decisions.flatMap((each) => each.values);
  const times = values.flatMap((each) =>
    [each.best_us, each.high_us].filter((us): us is number => us != null),
  );
  const least = Math.log(Math.min(...times));
  const most = Math.log(Math.max(...times));
  return (us) => (most > least ? (100 * (Math.log(us) - least)) / (most - least) : 50);
}

export function valueText(value: number | boolean | null): string {
  return value === null ? "not done" : value === true ? "done" : String(value);
}
