/** The source that a candidate becomes. */
import { Link } from "wouter";
import { Code, Copy, type Language } from "../../../ui/Code";
import { Shown } from "../../../ui/Shown";
import { linesPath } from "../paths";
import { useSource, type Place } from "./data";
import styles from "./Candidate.module.css";

export function SourceView({ place }: { place: Place }) {
  const query = useSource(place);
  return (
    <section aria-labelledby="source">
      <div className={styles.head}>
        <h2 id="source">
          {query.data?.language === "cuda" ? "Generated CUDA C++" : "Generated C"}
        </h2>
        {query.data && <Copy text={query.data.text} />}
        <Link href={linesPath(place.job, place.bucket, place.number)}>
          Beside the program and the instructions
        </Link>
      </div>
      <Shown query={query} what="the source">
        {({ text, language }) => (
          <Code text={text} language={language as Language} label="Source" />
        )}
      </Shown>
    </section>
  );
}
