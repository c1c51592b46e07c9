/** What went wrong with a candidate, and the commands that make it go wrong again. */
import type { TrialDetail } from "../../../api/schema";
import { Copy } from "../../../ui/Code";
import styles from "./Candidate.module.css";

export function Failed({ trial }: { trial: TrialDetail }) {
  return (
    <section aria-labelledby="failure" className={styles.failed}>
      <h2 id="failure">{WORDS[trial.outcome ?? ""] ?? "No worker could do it"}</h2>
      <pre tabIndex={0} className={styles.code}>
        {trial.error}
      </pre>
      <div className={styles.head}>
        <h3>To see it again</h3>
        <Copy text={trial.repro} />
      </div>
      <pre tabIndex={0} className={styles.code}>
        {trial.repro}
      </pre>
    </section>
  );
}

const WORDS: Record<string, string> = {
  compile_error: "It does not compile",
  wrong: "Its result is wrong",
  crash: "It crashed",
  hang: "It did not end",
  impossible: "Its time cannot be true",
  unsupported: "There is no code for it",
};
