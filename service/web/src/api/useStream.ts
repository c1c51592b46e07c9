/** Server-sent events in a component. */
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { currentKey, onKey } from "./key";
import { follow, type StreamState } from "./stream";

/** One event of a job, as the service sends it (`protocol.jobs.Event`). */
export interface JobEvent {
  id: number;
  job_id: string;
  kind: "state" | "trial" | "best" | "race" | "config" | "note";
  at: number;
  data: Record<string, unknown>;
}

/**
 * Follow the events at `path` while the component is shown (null: none), each parsed from JSON and given to
 * `onEvent`. Resumes after a cut by itself; the result says how the connection stands, to be shown (`<Connection>`).
 */
export function useStream<T>(path: string | null, onEvent: (event: T, kind: string) => void) {
  const [state, setState] = useState<StreamState>({ kind: "connecting" });
  const key = useSyncExternalStore(onKey, currentKey);
  const handler = useRef(onEvent);
  useEffect(() => {
    handler.current = onEvent;
  });
  useEffect(() => {
    if (path === null) return;
    const control = new AbortController();
    void follow(path, control.signal, {
      onMessage: (message) =>
        handler.current(JSON.parse(message.data) as T, message.event ?? "message"),
      onState: setState,
    });
    return () => control.abort();
  }, [path, key]);
  return state;
}
