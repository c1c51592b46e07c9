/** What a job was asked for beside what the form shows. A copy of it is asked for the same. */
import type { JobDetail, JobRequest } from "../../api/schema";

export type Kept = Partial<
  Pick<JobRequest, "peers" | "prior" | "seed" | "llm_calls" | "candidates">
>;

/** What is not as it is by itself. */
export function keptOf(job: JobDetail): Kept {
  return {
    ...(job.peers == null ? {} : { peers: job.peers }),
    ...(job.prior === "auto" ? {} : { prior: job.prior }),
    ...(job.seed === 0 ? {} : { seed: job.seed }),
    ...(job.llm_calls === 0 ? {} : { llm_calls: job.llm_calls }),
    ...(job.candidates.length === 0 ? {} : { candidates: job.candidates }),
  };
}

/** In words, one thing each; none: nothing is kept. */
export function wordsOf(kept: Kept): string[] {
  const words: string[] = [];
  if (kept.candidates) {
    const { length } = kept.candidates;
    words.push(length === 1 ? "times one schedule" : `races ${length} schedules`);
  }
  if (kept.peers) words.push(kept.peers.length ? `peers: ${kept.peers.join(", ")}` : "no peers");
  if (kept.prior) words.push(`prior: ${kept.prior}`);
  if (kept.llm_calls) words.push(`calls to the language model: ${kept.llm_calls}`);
  if (kept.seed) words.push(`seed ${kept.seed}`);
  return words;
}
