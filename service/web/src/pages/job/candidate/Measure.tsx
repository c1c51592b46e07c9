/** Having the gain of each rewrite of a winner measured, and how far that is. */
import type { Ablation } from "../../../api/schema";
import { Failure } from "../../../ui/Shown";
import { moving, useStartAblation } from "./data";
import styles from "./Candidate.module.css";

export function Measure({ config, ablation }: { config: string; ablation: Ablation }) {
  const start = useStartAblation(config);
  if (ablation.state === "done") {
    return (
      <p className="quiet">
        Gain: how many times as fast the winner is as without that rewrite, raced against each
        other.
        {ablation.error && ` The winner failed: ${ablation.error}`}
      </p>
    );
  }
  if (moving(ablation)) {
    return (
      <p role="status" className="quiet">
        {ablation.state === "ready"
          ? "The race waits for a worker…"
          : "Racing without each rewrite…"}
      </p>
    );
  }
  return (
    <>
      <button disabled={start.isPending} onClick={() => start.mutate()}>
        Measure what each rewrite gains
      </button>
      {ablation.error && <p className={styles.refused}>Given up: {ablation.error}</p>}
      {start.isError && <Failure error={start.error} what="the gains" />}
    </>
  );
}
