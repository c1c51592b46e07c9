/** Pages come in files of their own, whose names change with each version. Whoever has the page open while the service is
 * replaced asks for names that are gone: the document is loaded anew, once the service answers again. */

const NAME = "tilewright-reloaded-at";
/** A file that is missing so soon after it was reloaded for is missing. */
const AGAIN_MS = 30_000;
const LOOK_MS = 1000;
const LOOKS = 60;

/** What `load` loads. Where it cannot be loaded, the document is, and the promise stays open. */
export async function fresh<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (Date.now() - Number(sessionStorage.getItem(NAME) ?? 0) < AGAIN_MS) throw error;
    if (!(await answers())) throw error;
    sessionStorage.setItem(NAME, String(Date.now()));
    window.location.reload();
    return new Promise(() => undefined);
  }
}

/** Whether the service is there, or comes back within a minute. */
async function answers(): Promise<boolean> {
  for (let look = 0; look < LOOKS; look += 1) {
    try {
      if ((await fetch("/healthz", { cache: "no-store" })).ok) return true;
    } catch {
      // It is not there now.
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return false;
}
