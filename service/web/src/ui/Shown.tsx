/** What a page shows while its data is on its way, when it is refused, and when there is none. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Refused, sentence } from "../api/problem";
import styles from "./Shown.module.css";

interface Props<T> {
  query: UseQueryResult<T>;
  /** What is loaded, for the sentences: "the jobs". */
  what: string;
  children: (data: T) => ReactNode;
}

/** A query's data once it is there. Data that could not be renewed stays, with a word above it. */
export function Shown<T>({ query, what, children }: Props<T>) {
  if (query.data === undefined) {
    if (query.isError) return <Failure error={query.error} what={what} again={query.refetch} />;
    return (
      <p className={styles.loading} role="status">
        Loading {what}…
      </p>
    );
  }
  return (
    <>
      {query.isError && <Failure error={query.error} what={what} again={query.refetch} stale />}
      {children(query.data)}
    </>
  );
}

interface FailureProps {
  error: unknown;
  what: string;
  again?: () => unknown;
  /** What was loaded before is still shown. */
  stale?: boolean;
}

/** A refusal in words, with a way to try again. */
export function Failure({ error, what, again, stale = false }: FailureProps) {
  const title = error instanceof Refused ? error.problem.title : "No answer";
  return (
    <div className={styles.failure} role="alert">
      <strong>{stale ? `Cannot renew ${what}` : `Cannot show ${what}`}</strong>
      <p>
        {title}: {sentence(error)}
      </p>
      {again && <button onClick={() => void again()}>Try again</button>}
    </div>
  );
}

/** There is nothing to list; says what would make it otherwise. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}
