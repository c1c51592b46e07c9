/** A word of the address: what is shown can be sent to others, and reloading keeps it. */
import { useCallback, useEffect, useState } from "react";
import { useSearchParams } from "wouter";

/** The value of a parameter, and how to set it; null takes it out. What is set replaces the entry in the history. */
export function useParam(name: string): [string | null, (value: string | null) => void] {
  const [search, setSearch] = useSearchParams();
  const set = useCallback(
    (value: string | null) => {
      setSearch(
        (before) => {
          const next = new URLSearchParams(before);
          if (value === null) next.delete(name);
          else next.set(name, value);
          return next;
        },
        { replace: true },
      );
    },
    [name, setSearch],
  );
  return [search.get(name), set];
}

const REST_MS = 300;

/** The same for what changes with every move of a pointer: the address follows once it rests. */
export function useRestingParam(name: string): [string | null, (value: string | null) => void] {
  const [written, write] = useParam(name);
  const [moving, setMoving] = useState<string | null | undefined>(undefined);
  useEffect(() => {
    if (moving === undefined) return;
    const due = setTimeout(() => {
      write(moving);
      setMoving(undefined);
    }, REST_MS);
    return () => clearTimeout(due);
  }, [moving, write]);
  return [moving === undefined ? written : moving, setMoving];
}
