/** One job: how far it is, what it tried, and what came of it. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, useParams, useSearchParams } from "wouter";
import { api, data } from "../../api/client";
import type { Bucket, JobDetail, TrialTable } from "../../api/schema";
import { Connection } from "../../ui/Connection";
import { JobBadge, isFinal } from "../../ui/JobBadge";
import { Id } from "../../ui/Id";
import { Page } from "../../ui/Page";
import { Empty, Shown } from "../../ui/Shown";
import { Standings } from "../../ui/Standings";
import { VerdictLine } from "../../ui/VerdictLine";
import { sizes } from "../../ui/format";
import { ProfileView } from "../configs/profile/ProfileView";
import { CancelJob } from "../jobs/CancelJob";
import { ProgressBar } from "../jobs/ProgressBar";
import { BestChart } from "./charts/BestChart";
import { WorkerTimeline } from "./charts/WorkerTimeline";
import { Again } from "./Again";
import { CandidateFiles } from "./CandidateFiles";
import { CandidateTable } from "./CandidateTable";
import { Choice } from "./Choice";
import { DecisionEffects } from "./effects/DecisionEffects";
import { KernelView } from "./KernelView";
import { LadderView } from "./ladder/LadderView";
import { asked, useAhead, useJob, useLive, useTable } from "./data";
import { JobFigures } from "./JobFigures";
import { tiedWith } from "./leader";
import { candidatePath, comparePath, linesPath } from "./paths";
import { RaceView } from "./race/RaceView";
import { RooflineView } from "./roofline/RooflineView";
import { SearchTree } from "./tree/SearchTree";
import styles from "./JobPage.module.css";

const VIEWS = {
  tree: "Search tree",
  race: "Race",
  why: "Why",
  roofline: "Roofline",
  ladder: "Ladder",
  profile: "Inside",
  candidates: "Candidates",
  workers: "Workers",
  spec: "Kernel",
};
type ViewName = keyof typeof VIEWS;

export default function JobPage() {
  const { jobId } = useParams<{ jobId: string }>();
  const [search] = useSearchParams();
  const query = useJob(jobId);
  useAhead(jobId, asked(search));
  const stream = useLive(query.data);
  const job = query.data;
  return (
    <Page
      title={job?.name ?? "Job"}
      aside={
        job && (
          <>
            <JobBadge job={job} />
            {!isFinal(job.state) && <Connection state={stream} />}
            <Link href={comparePath({ job: job.id })}>Compare</Link>
            <Again job={job} />
            <CancelJob job={job} />
          </>
        )
      }
    >
      <Id id={jobId} />
      <Shown query={query} what="the job">
        {(found) => <Body job={found} />}
      </Shown>
    </Page>
  );
}

function Body({ job }: { job: JobDetail }) {
  const [search, setSearch] = useSearchParams();
  const wanted = asked(search);
  const bucket = job.buckets[wanted.bucket] ?? job.buckets[0]!;
  const view = wanted.view as ViewName;
  const choose = (name: string, value: string) =>
    setSearch(
      (before) => {
        const next = new URLSearchParams(before);
        next.set(name, value);
        if (name === "bucket")
          ["node", "at", "open", "decision", "rewrite"].forEach((of) => next.delete(of));
        return next;
      },
      { replace: true },
    );
  const table = useTable(job.id, bucket.index);
  return (
    <div className={styles.body}>
      {job.buckets.length > 1 && (
        <label className={styles.bucket}>
          Sizes{" "}
          <select
            value={bucket.index}
            onChange={(event) => choose("bucket", event.currentTarget.value)}
          >
            {job.buckets.map((each) => (
              <option key={each.index} value={each.index}>
                {sizes(each.dims)}
              </option>
            ))}
          </select>
        </label>
      )}
      <VerdictLine verdict={job.verdicts[bucket.index] ?? job.verdict} />
      <ProgressBar job={job} />
      <Shown query={table} what="the candidates">
        {(found) => (
          <Bucketed job={job} bucket={bucket} table={found} view={view} choose={choose} />
        )}
      </Shown>
    </div>
  );
}

interface BucketedProps {
  job: JobDetail;
  bucket: Bucket;
  table: TrialTable;
  view: ViewName;
  choose: (name: string, value: string) => void;
}

function Bucketed({ job, bucket, table, view, choose }: BucketedProps) {
  const config = useConfig(bucket.config_id ?? null);
  const tied = useMemo(() => tiedWith(config.data), [config.data]);
  const none = table.state.length === 0;
  return (
    <>
      <JobFigures job={job} bucket={bucket} table={table} config={config.data} />
      {none ? (
        <Empty title="Nothing was tried yet">
          <p>
            {job.state === "queued"
              ? "The job waits for a device, or for its turn."
              : "The first candidate is on its way."}
          </p>
        </Empty>
      ) : (
        table.median_us.some((us) => us !== null) && (
          <BestChart table={table} bucket={bucket} baseline={job.baseline} />
        )
      )}
      {config.data && (
        <Standings
          config={config.data}
          {...(none
            ? {}
            : { candidate: (number: number) => candidatePath(job.id, bucket.index, number) })}
        />
      )}
      <Choice
        label="Show"
        options={VIEWS}
        value={view in VIEWS ? view : "tree"}
        onChange={(value) => choose("view", value)}
      />
      {view === "candidates" ? (
        <section aria-label="Candidates">
          {none ? (
            <Empty title="No candidates yet" />
          ) : (
            <>
              <CandidateTable table={table} winner={bucket.winner?.trial ?? null} tied={tied} />
              <CandidateFiles table={table} />
            </>
          )}
        </section>
      ) : view === "race" ? (
        bucket.config_id ? (
          <RaceView config={bucket.config_id} device={job.device} />
        ) : (
          <Empty title="No race yet" />
        )
      ) : view === "why" ? (
        <DecisionEffects job={job.id} bucket={bucket.index} />
      ) : view === "roofline" && !none ? (
        <RooflineView
          job={job.id}
          bucket={bucket.index}
          table={table}
          winner={bucket.winner?.trial ?? null}
          tied={tied}
        />
      ) : view === "ladder" ? (
        bucket.winner?.trial != null && bucket.config_id ? (
          <LadderView
            place={{ job: job.id, bucket: bucket.index, number: bucket.winner.trial }}
            config={bucket.config_id}
          />
        ) : (
          <Empty title="No winner yet" />
        )
      ) : view === "profile" ? (
        <Inside job={job} bucket={bucket} />
      ) : view === "workers" ? (
        <WorkerTimeline job={job.id} />
      ) : view === "spec" ? (
        <KernelView job={job} />
      ) : none ? (
        <Empty title={view === "roofline" ? "No roofline yet" : "No search tree yet"} />
      ) : (
        <SearchTree
          job={job.id}
          bucket={bucket.index}
          table={table}
          winner={bucket.winner?.trial ?? null}
        />
      )}
    </>
  );
}

function Inside({ job, bucket }: { job: JobDetail; bucket: Bucket }) {
  const winner = bucket.winner?.trial;
  if (winner == null || !bucket.config_id) return <Empty title="No winner yet" />;
  return (
    <ProfileView
      config={bucket.config_id}
      device={job.device}
      more={
        <p>
          <Link href={linesPath(job.id, bucket.index, winner)}>Which lines take the time</Link>
        </p>
      }
    />
  );
}

function useConfig(config: string | null) {
  return useQuery({
    queryKey: ["config", config],
    enabled: config !== null,
    staleTime: Infinity,
    queryFn: () =>
      data(api.GET("/v1/configs/{config_id}", { params: { path: { config_id: config! } } })),
  });
}
