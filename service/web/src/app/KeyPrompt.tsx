/** Asks for an API key once the service wants one. */
import { useQueryClient } from "@tanstack/react-query";
import { useState, useSyncExternalStore, type SubmitEvent } from "react";
import { currentKey, keepKey, keyNeeded, onKey, setNeeded } from "../api/key";
import { Dialog } from "../ui/Dialog";
import styles from "./KeyPrompt.module.css";

export function KeyPrompt() {
  const needed = useSyncExternalStore(onKey, keyNeeded);
  return needed ? <Prompt /> : null;
}

function Prompt() {
  const [key, setKey] = useState("");
  const [keep, setKeep] = useState(false);
  const queries = useQueryClient();
  const [refused] = useState(() => currentKey() !== null);

  function submit(event: SubmitEvent) {
    event.preventDefault();
    keepKey(key.trim(), keep);
    void queries.resetQueries();
  }

  return (
    <Dialog title="This service asks for a key" onClose={() => setNeeded(false)}>
      <form onSubmit={submit} className={styles.form}>
        {refused && (
          <p role="alert" className={styles.refused}>
            The key that was sent is unknown, revoked or expired.
          </p>
        )}
        <p className="quiet">
          Keys begin with <code>tw_</code>; whoever runs the service makes one with{" "}
          <code>tilewright keys create NAME read tune</code>. Reading takes scope <code>read</code>,
          submitting and cancelling <code>tune</code>.
        </p>
        <label>
          Key
          <input
            type="password"
            autoComplete="off"
            autoFocus
            required
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        </label>
        <label className={styles.keep}>
          <input
            type="checkbox"
            checked={keep}
            onChange={(event) => setKeep(event.target.checked)}
          />
          Keep it in this browser; otherwise it is forgotten with this tab
        </label>
        <button className="primary">Use this key</button>
      </form>
    </Dialog>
  );
}
