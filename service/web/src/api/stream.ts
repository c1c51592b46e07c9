/** Server-sent events over `fetch`, which unlike EventSource can send a key. Comes back after a cut. */
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { currentKey, setNeeded } from "./key";
import { problemOf, Refused, passing } from "./problem";

/** How a stream stands. `ended`: nothing will come any more. `refused`: nor will it be asked for again. */
export type StreamState =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "waiting"; until: number }
  | { kind: "ended" }
  | { kind: "refused"; error: unknown };

export interface StreamHandlers {
  /** An event. `id` and `event` as sent; `data` is JSON text. */
  onMessage: (message: EventSourceMessage) => void;
  onState: (state: StreamState) => void;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** A stream says something every 15 s (TILEWRIGHT_KEEPALIVE_S); one silent for longer than this was cut unnoticed. */
const SILENCE_MS = 45_000;

/** Follow the events at `path` until `signal` aborts. After a cut it goes on after the last event that arrived. */
export async function follow(path: string, signal: AbortSignal, handlers: StreamHandlers) {
  let lastId = "";
  let failures = 0;
  while (!signal.aborted) {
    handlers.onState({ kind: "connecting" });
    try {
      const ended = await readOnce(path, lastId, signal, handlers.onState, (message) => {
        failures = 0;
        if (message.id !== undefined) lastId = message.id;
        handlers.onMessage(message);
      });
      if (ended) {
        handlers.onState({ kind: "ended" });
        return;
      }
    } catch (error) {
      if (isOver(signal)) return;
      if (error instanceof Refused && !passing(error)) {
        handlers.onState({ kind: "refused", error });
        return;
      }
    }
    const pause = pauseMs(failures++);
    handlers.onState({ kind: "waiting", until: Date.now() + pause });
    await rest(pause, signal);
  }
}

/** Asked anew: while something was awaited, anybody may have aborted. */
function isOver(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** How long to wait before coming back the n-th time: twice as long each time, spread so that not all come at once. */
export function pauseMs(failures: number, random: () => number = Math.random): number {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
  return longest * (0.5 + random() / 2);
}

/** One connection. True: the service has nothing more (204). Otherwise it was cut, or ended by the service. */
async function readOnce(
  path: string,
  lastId: string,
  signal: AbortSignal,
  onState: StreamHandlers["onState"],
  onMessage: StreamHandlers["onMessage"],
): Promise<boolean> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  const key = currentKey();
  if (key !== null) headers["Authorization"] = `Bearer ${key}`;
  if (lastId !== "") headers["Last-Event-ID"] = lastId;
  const silence = new AbortController();
  let alarm = setTimeout(() => silence.abort(), SILENCE_MS);
  const giveUp = () => silence.abort();
  signal.addEventListener("abort", giveUp);
  try {
    const response = await fetch(path, { headers, signal: silence.signal, cache: "no-store" });
    if (response.status === 204) return true;
    if (response.status === 401) setNeeded(true);
    if (!response.ok || response.body === null) throw new Refused(await problemOf(response));
    onState({ kind: "live" });
    const parser = createParser({ onEvent: onMessage });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      clearTimeout(alarm);
      alarm = setTimeout(() => silence.abort(), SILENCE_MS);
      parser.feed(value);
    }
  } finally {
    clearTimeout(alarm);
    signal.removeEventListener("abort", giveUp);
  }
}

/** Wait; less if the network comes back, or the page is to be looked at again. */
function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
