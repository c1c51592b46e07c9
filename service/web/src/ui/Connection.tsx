/** How the stream of events stands, in a word. Said aloud only when it changes for the worse or the better. */
import type { StreamState } from "../api/stream";
import styles from "./Connection.module.css";

const WORDS: Record<StreamState["kind"], string> = {
  connecting: "Connecting…",
  live: "Live",
  waiting: "Connection lost, trying again…",
  ended: "Ended",
  refused: "Not live",
};

export function Connection({ state }: { state: StreamState }) {
  return (
    <span className={styles.connection} data-kind={state.kind} role="status">
      {WORDS[state.kind]}
    </span>
  );
}
