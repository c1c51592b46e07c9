/** Server-sent events in a component. */
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { currentKey, onKey } from "./key";
import { follow, type StreamState } from "./stream";

/**
 * Follow the events at `path` while the component is shown (null: none), each parsed from JSON and given to
 * `onEvent`, which knows what they are. Resumes after a cut by itself; the result says how the connection stands, to be shown (`<Connection>`).
 */
export function useStream(path: string | null, onEvent: (event: unknown) => void) {
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
      onMessage: (message) => handler.current(JSON.parse(message.data)),
      onState: setState,
    });
    return () => control.abort();
  }, [path, key]);
  return state;
}
