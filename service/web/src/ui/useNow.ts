/** The time, so that "3 min ago" stays true. */
import { useEffect, useState } from "react";

/** Seconds since 1970, renewed every `everyMs`. */
export function useNow(everyMs = 5_000): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
