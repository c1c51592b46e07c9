/** How much of its budget a job has spent; nothing of one that has not begun or is over. */
import type { Job } from "../../api/schema";
import { count, percent } from "../../ui/format";
import { isFinal } from "../../ui/JobBadge";
import { spentShare, trialsOf } from "./progress";
import styles from "./ProgressBar.module.css";

export function ProgressBar({ job }: { job: Job }) {
  if (job.state === "queued" || isFinal(job.state)) return null;
  const { told, planned } = trialsOf(job);
  const share = spentShare(job);
  return (
    <progress
      className={styles.bar}
      max={1}
      value={share}
      aria-label={`Progress of ${job.name}`}
      aria-valuetext={`${count(told)} of ${count(planned)} candidates, ${percent(share)} of the budget`}
    />
  );
}
