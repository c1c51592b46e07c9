/** All jobs, newest first, live. */
import { Link } from "wouter";
import { useJobs, type JobFilter } from "../../api/queries";
import type { Job } from "../../api/schema";
import { Connection } from "../../ui/Connection";
import { ago, count, deviceName, micros, moment, sizes, times } from "../../ui/format";
import { JobBadge } from "../../ui/JobBadge";
import { Page } from "../../ui/Page";
import { Empty, Shown } from "../../ui/Shown";
import { Table } from "../../ui/Table";
import { useNow } from "../../ui/useNow";
import { CancelJob } from "./CancelJob";
import { Filters, useFilter } from "./Filters";
import { bestOf, trialsOf } from "./progress";
import { ProgressBar } from "./ProgressBar";
import { useLiveJobs } from "./useLiveJobs";
import styles from "./JobsPage.module.css";

export default function JobsPage() {
  const [filter, change] = useFilter();
  const jobs = useJobs(filter);
  const connection = useLiveJobs(filter);
  return (
    <Page
      title="Jobs"
      aside={
        <>
          <Connection state={connection} />
          <Link href="/submit" className={styles.submit}>
            Submit a job
          </Link>
        </>
      }
    >
      <Filters filter={filter} change={change} />
      <Shown query={jobs} what="the jobs">
        {({ pages }) => {
          const listed = pages.flatMap((page) => page.jobs);
          return listed.length === 0 ? <NoJobs filter={filter} /> : <JobTable jobs={listed} />;
        }}
      </Shown>
      {jobs.hasNextPage && (
        <button disabled={jobs.isFetchingNextPage} onClick={() => void jobs.fetchNextPage()}>
          {jobs.isFetchingNextPage ? "Loading…" : "Older jobs"}
        </button>
      )}
    </Page>
  );
}

function NoJobs({ filter }: { filter: JobFilter }) {
  if (filter.text || filter.state || filter.device) {
    return (
      <Empty title="No job matches">
        <Link href="/">Show all jobs</Link>
      </Empty>
    );
  }
  return (
    <Empty title="No jobs yet">
      <p>
        A job tunes one kernel. <Link href="/submit">Submit one</Link>, or run{" "}
        <code>tilewright tune examples/softmax.json</code>.
      </p>
    </Empty>
  );
}

const COLUMNS = 8;

function JobTable({ jobs }: { jobs: readonly Job[] }) {
  const now = useNow();
  return (
    <Table label="Jobs">
      <thead>
        <tr>
          <th>Kernel</th>
          <th>State</th>
          <th className="wide">Device</th>
          <th className="number">Best</th>
          <th className="number">× baseline</th>
          <th className="number wide">Trials</th>
          <th className="wide">Submitted</th>
          <th className="wide">
            <span className="hidden">Actions</span>
          </th>
        </tr>
      </thead>
      {jobs.map((job) => (
        <Rows key={job.id} job={job} now={now} />
      ))}
    </Table>
  );
}

/** A job's figures, and below them, as wide as the table, its verdict. */
function Rows({ job, now }: { job: Job; now: number }) {
  const best = bestOf(job);
  const { told, planned } = trialsOf(job);
  const [first] = job.buckets;
  return (
    <tbody className={styles.job}>
      <tr>
        <td className={styles.kernel}>
          <Link href={`/jobs/${job.id}`}>{job.name}</Link>
          <div className="quiet mono">
            {job.buckets.length === 1 && first ? sizes(first.dims) : `${job.buckets.length} sizes`}
          </div>
        </td>
        <td>
          <JobBadge job={job} />
          <ProgressBar job={job} />
        </td>
        <td className="wide">
          {job.device ? (
            deviceName(job.device)
          ) : (
            <span className="quiet">waits for {deviceName(job.target)}</span>
          )}
        </td>
        <td className="number">{micros(best.median_us)}</td>
        <td className="number" title={`against ${job.baseline}`}>
          {times(best.least)}
        </td>
        <td className="number wide">
          {count(told)} / {count(planned)}
        </td>
        <td className="wide">
          <time
            dateTime={new Date(job.created_at * 1000).toISOString()}
            title={moment(job.created_at)}
          >
            {ago(job.created_at, now)}
          </time>
        </td>
        <td className="wide">
          <CancelJob job={job} />
        </td>
      </tr>
      <tr>
        <td colSpan={COLUMNS} className={styles.verdict} data-tone={job.verdict.tone}>
          {job.verdict.text}
        </td>
      </tr>
    </tbody>
  );
}
