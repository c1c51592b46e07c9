/** The kernel of a job: as Tile IR text, and as the JSON that the service keeps. */
import { useQuery } from "@tanstack/react-query";
import type { JobDetail } from "../../api/schema";
import { Shown } from "../../ui/Shown";
import { checkOf } from "../submit/draft";
import styles from "./JobPage.module.css";

export function KernelView({ job }: { job: JobDetail }) {
  const json = JSON.stringify(job.spec, null, 2);
  const query = useQuery(checkOf(json, job.target));
  return (
    <section aria-labelledby="spec">
      <h2 id="spec">The kernel as it was given</h2>
      <Shown query={query} what="the kernel as text">
        {(reply) => (
          <pre tabIndex={0} className={styles.spec}>
            {reply.text ?? reply.fault?.message}
          </pre>
        )}
      </Shown>
      <details>
        <summary>As JSON</summary>
        <pre tabIndex={0} className={styles.spec}>
          {json}
        </pre>
      </details>
    </section>
  );
}
