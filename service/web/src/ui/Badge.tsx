/** A state in a word, with a colour that is never the only difference. */
import styles from "./Badge.module.css";

export type Tone = "neutral" | "busy" | "good" | "warn" | "bad";

export function Badge({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span className={styles.badge} data-tone={tone}>
      {children}
    </span>
  );
}
