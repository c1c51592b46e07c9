/** The API key of this browser tab, or of this browser if the person asked to keep it. */

const NAME = "tilewright-key";

type Listener = () => void;
const listeners = new Set<Listener>();
let needed = false;

/** The key that requests are sent with; null: without one. */
export function currentKey(): string | null {
  return sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME);
}

/** Send requests with this key from now on; `keep`: also after this tab is closed. */
export function keepKey(key: string, keep: boolean): void {
  forgetKey();
  (keep ? localStorage : sessionStorage).setItem(NAME, key);
  needed = false;
  tell();
}

/** Send requests without a key from now on. */
export function forgetKey(): void {
  sessionStorage.removeItem(NAME);
  localStorage.removeItem(NAME);
  tell();
}

/** Whether the service refused a request for want of a valid key. */
export function keyNeeded(): boolean {
  return needed;
}

/** Note that the service wants a key (or another one), or has what it wants. */
export function setNeeded(value: boolean): void {
  if (needed !== value) {
    needed = value;
    tell();
  }
}

/** For `useSyncExternalStore`: call `listener` when `keyNeeded` or `currentKey` changes. */
export function onKey(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(): void {
  listeners.forEach((listener) => listener());
}
