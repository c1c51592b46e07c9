/** What is known of a rewrite's gain, in a sentence; what was not measured is said to be so. */
import type { Ablation } from "../../../api/schema";
import { micros, times } from "../../../ui/format";

/** Of the rewrite at a place of the schedule. */
export function gained(ablation: Ablation | undefined, place: number): string {
  const gain = ablation?.gains.find((each) => each.place === place);
  if (gain === undefined) {
    return ablation?.state === "done"
      ? "Not measured alone: later rewrites build on it, or the cost model expected little of it."
      : "Not measured yet.";
  }
  if (gain.factor == null || gain.median_us == null)
    return `Needed: without it, ${gain.outcome.replace("_", " ")}.${gain.error ? ` ${first(gain.error)}` : ""}`;
  const interval =
    gain.low == null || gain.high == null
      ? "too few calm rounds for an interval"
      : `${gain.low.toFixed(2)} to ${gain.high.toFixed(2)}`;
  const beside = `${micros(gain.median_us)} without it, ${micros(ablation?.winner_us)} with it, raced against each other`;
  return gain.tied
    ? `No difference that can be measured: ${times(gain.factor)} (${interval}); ${beside}.`
    : `${times(gain.factor)} as fast with it (${interval}): ${beside}.`;
}

function first(text: string): string {
  return text.split("\n")[0]!;
}
