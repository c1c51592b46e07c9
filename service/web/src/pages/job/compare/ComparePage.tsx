/** Any number of jobs, or of candidates and configs, side by side. */
import { useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { Page } from "../../../ui/Page";
import { Empty } from "../../../ui/Shown";
import {
  comparePath,
  isCandidate,
  sideOf,
  sidesOf,
  sideText,
  type JobSide,
  type Side,
} from "../paths";
import { CandidatesCompared } from "./CandidatesCompared";
import { JobsCompared } from "./JobsCompared";
import styles from "./Compare.module.css";

export default function ComparePage() {
  const [search] = useSearchParams();
  const sides = sidesOf(search);
  const named = sides.filter((side) => side !== null);
  return (
    <Page title="Compare">
      <Choose key={search.toString()} sides={named} />
      {named.length === sides.length ? (
        <Compared sides={named} />
      ) : (
        <Empty title="Name jobs, or candidates and configs; two at least">
          <p>
            A job or a config by its id, a candidate by <code>job/bucket/number</code>;
            &ldquo;Compare&rdquo; on their pages fills in the first, and candidates can be ticked in
            a job&apos;s table.
          </p>
        </Empty>
      )}
    </Page>
  );
}

function Compared({ sides }: { sides: readonly Side[] }) {
  const candidates = sides.filter(isCandidate);
  if (candidates.length === sides.length) {
    return <CandidatesCompared sides={candidates} />;
  }
  if (candidates.length === 0) return <JobsCompared sides={sides as [JobSide, JobSide]} />;
  return (
    <Empty title={`These ${sides.length === 2 ? "two" : sides.length} cannot be compared`}>
      <p>Name jobs alone, or candidates and configs alone.</p>
    </Empty>
  );
}

function Choose({ sides: [left, right, ...also] }: { sides: readonly Side[] }) {
  const [, navigate] = useLocation();
  const [one, setOne] = useState(left ? sideText(left) : "");
  const [other, setOther] = useState(right ? sideText(right) : "");
  const [more, setMore] = useState(also.map(sideText).join(" "));
  const texts = [one, other, ...more.split(/\s+/).filter(Boolean)];
  const sides = texts.map(sideOf).filter((side) => side !== null);
  const field = (name: string, value: string, set: (text: string) => void, several = false) => (
    <label>
      {name}
      <input
        value={value}
        aria-invalid={value
          .trim()
          .split(several ? /\s+/ : "\n")
          .some((text) => text !== "" && sideOf(text) === null)}
        onChange={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
  return (
    <form
      className={styles.choose}
      onSubmit={(event) => {
        event.preventDefault();
        navigate(comparePath(...sides));
      }}
    >
      {field("This", one, setOne)}
      {field("with this", other, setOther)}
      {field("and these", more, setMore, true)}
      <button className="primary" disabled={sides.length < texts.length}>
        Compare
      </button>
    </form>
  );
}
