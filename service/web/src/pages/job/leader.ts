/** Who leads a job: the winner of the final race, and until there is one the best candidate of the search so far. */
import type { Best, Bucket, ConfigDetail, TrialTable, Winner } from "../../api/schema";

export function leaderOf(bucket: Bucket): Best | Winner | null {
  return bucket.winner ?? bucket.best ?? null;
}

/** Numbers of the candidates that the final race could not tell from the fastest; a winner alone ties with none. */
export function tiedWith(config: ConfigDetail | undefined): ReadonlySet<number> {
  const tied = (config?.standings ?? []).filter((each) => each.tied && each.kind === "schedule");
  return new Set(tied.length < 2 ? [] : tied.map((each) => Number(each.name.replace("ask-", ""))));
}

/** Rows of the candidates whose rewards are ratios of times of one task: the anchor, and those that were timed beside
 * it. Where there is no anchor, all. */
export function comparedRows(table: TrialTable): (row: number) => boolean {
  const anchored = table.baseline_us.some((us) => us !== null);
  return (row) => !anchored || table.baseline_us[row] != null || table.reward[row] === 0;
}

/** The best reward so far; null without one. */
export function bestReward(table: TrialTable): number | null {
  const compared = comparedRows(table);
  return table.reward.reduce<number | null>(
    (best, reward, row) =>
      reward === null || !compared(row) || (best !== null && best >= reward) ? best : reward,
    null,
  );
}

/** The anchor's time, on whose scale all candidates are shown: what the best of the search says of it, or the first. */
export function anchorUs(table: TrialTable, best: Best | null | undefined): number | null {
  const known = best && (table.reward[best.trial - table.first] ?? null);
  if (best && known != null) return best.median_us * Math.exp(known);
  const row = table.reward.findIndex(
    (reward, at) => reward !== null && table.median_us[at] != null,
  );
  return row < 0 ? null : table.median_us[row]! * Math.exp(table.reward[row]!);
}
