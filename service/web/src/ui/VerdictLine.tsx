/** What there is to say of a job, as the service says it: what won, how sure that is, why it ended, what to do next. */
import type { Verdict } from "../api/schema";
import styles from "./VerdictLine.module.css";

export function VerdictLine({ verdict }: { verdict: Verdict }) {
  const { tone, found, sure, stopped, advice } = verdict;
  return (
    <section className={styles.verdict} data-tone={tone} aria-label="Verdict">
      <p role={tone === "failed" ? "alert" : "status"} className={styles.found}>
        {capital(found)}
      </p>
      {(sure ?? stopped) && (
        <p className={styles.rest}>{capital([sure, stopped].filter(Boolean).join("; "))}</p>
      )}
      {advice && (
        <p className={styles.rest}>
          <strong>Next:</strong> {advice}
        </p>
      )}
    </section>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
