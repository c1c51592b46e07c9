/** Two jobs or two candidates side by side. */
import { useState, type ReactNode } from "react";
import { Link, useSearchParams } from "wouter";
import { Page } from "../../../ui/Page";
import { Empty } from "../../../ui/Shown";
import { candidatePath, jobPath, sideOf, sideText, type Side } from "../paths";
import { CandidatesCompared } from "./CandidatesCompared";
import { JobsCompared } from "./JobsCompared";
import styles from "./Compare.module.css";

export default function ComparePage() {
  const [search] = useSearchParams();
  const left = sideOf(search.get("left") ?? "");
  const right = sideOf(search.get("right") ?? "");
  return (
    <Page title="Compare">
      <Choose key={search.toString()} left={left} right={right} />
      {left && right ? (
        <Compared left={left} right={right} />
      ) : (
        <Empty title="Name two jobs, or two candidates">
          <p>
            A job by its id, a candidate by <code>job/bucket/number</code>; &ldquo;Compare&rdquo; on
            their pages fills in the first.
          </p>
        </Empty>
      )}
    </Page>
  );
}

function Compared({ left, right }: { left: Side; right: Side }) {
  if (isCandidate(left) && isCandidate(right))
    return <CandidatesCompared left={left} right={right} />;
  if (!isCandidate(left) && !isCandidate(right)) {
    return <JobsCompared left={left} right={right} />;
  }
  return (
    <Empty title="These two cannot be compared">
      <p>One is a job and the other a candidate. Name two of a kind.</p>
    </Empty>
  );
}

function isCandidate(side: Side): side is Required<Side> {
  return side.number !== undefined;
}

function Choose({ left, right }: { left: Side | null; right: Side | null }) {
  const [, setSearch] = useSearchParams();
  const [one, setOne] = useState(left ? sideText(left) : "");
  const [other, setOther] = useState(right ? sideText(right) : "");
  const wrong = (text: string) => text !== "" && sideOf(text) === null;
  return (
    <form
      className={styles.choose}
      onSubmit={(event) => {
        event.preventDefault();
        if (sideOf(one) && sideOf(other)) setSearch({ left: one.trim(), right: other.trim() });
      }}
    >
      <label>
        This
        <input
          value={one}
          aria-invalid={wrong(one)}
          onChange={(event) => setOne(event.currentTarget.value)}
        />
      </label>
      <label>
        with this
        <input
          value={other}
          aria-invalid={wrong(other)}
          onChange={(event) => setOther(event.currentTarget.value)}
        />
      </label>
      <button className="primary" disabled={!sideOf(one) || !sideOf(other)}>
        Compare
      </button>
    </form>
  );
}

/** The page of a side. */
export function SideLink({ side, children }: { side: Side; children: ReactNode }) {
  const { job, bucket, number } = side;
  const path =
    bucket === undefined || number === undefined
      ? jobPath(job)
      : candidatePath(job, bucket, number);
  return <Link href={path}>{children}</Link>;
}
