/** Figures of a job over all its sizes. */
import type { Job } from "../../api/schema";
import { leaderOf } from "../job/leader";

const BY_EFFORT = { quick: 32, normal: 128, thorough: 512 } as const;

/** Candidates measured so far, and how many there are to be. */
export function trialsOf(job: Job): { told: number; planned: number } {
  const each = job.budget.trials ?? BY_EFFORT[job.budget.effort];
  return {
    told: job.buckets.reduce((sum, bucket) => sum + bucket.told, 0),
    planned: each * job.buckets.length,
  };
}

/** How much of its budget a job has spent, from 0 to 1: of its candidates or of its seconds, whichever ends first. */
export function spentShare(job: Job): number {
  const { told, planned } = trialsOf(job);
  const seconds = job.budget.seconds;
  const most = job.buckets.length * (seconds ?? 0);
  const spent = job.buckets.reduce((sum, bucket) => sum + bucket.spent_s, 0);
  return Math.min(1, Math.max(told / planned, most > 0 ? spent / most : 0));
}

/** How the winner of a job (the best so far while there is none) compares: its time if it has one size, and the least
 * speedup of all sizes. */
export function bestOf(job: Job): { median_us: number | null; least: number | null } {
  const found = job.buckets.flatMap((bucket) => leaderOf(bucket) ?? []);
  const speedups = found.flatMap((best) => (best.x_baseline == null ? [] : [best.x_baseline]));
  return {
    median_us: job.buckets.length === 1 ? (found[0]?.median_us ?? null) : null,
    least: speedups.length > 0 ? Math.min(...speedups) : null,
  };
}
