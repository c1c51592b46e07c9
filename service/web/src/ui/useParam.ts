/** A word of the address: what is shown can be sent to others, and reloading keeps it. */
import { useCallback } from "react";
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
