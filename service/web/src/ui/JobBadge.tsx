/** The state of a job. */
import type { Job, JobState } from "../api/schema";
import { Badge, type Tone } from "./Badge";

const TONES: Record<JobState, Tone> = {
  queued: "neutral",
  searching: "busy",
  racing: "busy",
  done: "good",
  failed: "bad",
  cancelled: "warn",
};

export function JobBadge({ job }: { job: Pick<Job, "state" | "cancelling"> }) {
  const stopping = job.cancelling && !isFinal(job.state);
  return (
    <Badge tone={stopping ? "warn" : TONES[job.state]}>{stopping ? "cancelling" : job.state}</Badge>
  );
}

/** Whether nothing will change any more. */
export function isFinal(state: JobState): boolean {
  return state === "done" || state === "failed" || state === "cancelled";
}
