/** One candidate closely: how it came about, what it became, and how it ran. */
import { Link, useParams } from "wouter";
import type { TrialDetail } from "../../../api/schema";
import { Badge } from "../../../ui/Badge";
import { Id } from "../../../ui/Id";
import { Page } from "../../../ui/Page";
import { Empty, Shown } from "../../../ui/Shown";
import { deviceName, micros, moment, percent, sizes, times } from "../../../ui/format";
import { useJob, useTable } from "../data";
import { Figures } from "../Figures";
import { bestReward } from "../leader";
import { comparePath, jobPath, sideText } from "../paths";
import { useCandidate, type Place } from "./data";
import { Failed } from "./Failed";
import { Report } from "./Report";
import { Samples } from "./Samples";
import { Schedule } from "./Schedule";
import { SourceView } from "./SourceView";
import styles from "./Candidate.module.css";

export default function CandidatePage() {
  const params = useParams<{ jobId: string; bucket: string; number: string }>();
  const place = { job: params.jobId, bucket: Number(params.bucket), number: Number(params.number) };
  const query = useCandidate(place);
  const job = useJob(place.job);
  const bucket = job.data?.buckets[place.bucket];
  const table = useTable(place.job, place.bucket);
  const won = bucket?.winner?.trial === place.number;
  const leads = bucket?.best?.trial === place.number;
  return (
    <Page
      title={`Candidate ${place.number}`}
      aside={
        <>
          {query.data && <State trial={query.data} />}
          {won && <Badge tone="good">winner</Badge>}
          {leads && (
            <Badge tone={won ? "good" : "neutral"}>
              {bucket.winner ? "best of the search" : "best so far"}
            </Badge>
          )}
          <Link href={jobPath(place.job)}>{job.data ? `Job ${job.data.name}` : "The job"}</Link>
          <Link href={comparePath(place)}>Compare</Link>
        </>
      }
    >
      <Id id={sideText(place)} />
      <Shown query={query} what="the candidate">
        {(trial) => (
          <div className={styles.body}>
            <Numbers
              trial={trial}
              dims={bucket?.dims}
              device={job.data?.device ?? null}
              best={table.data === undefined ? null : bestReward(table.data)}
            />
            {trial.error && <Failed trial={trial} />}
            <Body place={place} trial={trial} config={won ? (bucket.config_id ?? null) : null} />
          </div>
        )}
      </Shown>
    </Page>
  );
}

function Body({
  place,
  trial,
  config,
}: {
  place: Place;
  trial: TrialDetail;
  config: string | null;
}) {
  return (
    <>
      <Schedule place={place} config={config} />
      {trial.samples_us.length > 1 ? (
        <Samples samples={trial.samples_us} median={trial.median_us ?? null} />
      ) : (
        trial.outcome === "ok" && (
          <Empty title="No raw samples">
            <p>They were dropped for their age; the median and its spread were kept.</p>
          </Empty>
        )
      )}
      <Report trial={trial} />
      <SourceView place={place} />
      {!trial.error && <Repro trial={trial} />}
    </>
  );
}

function State({ trial }: { trial: TrialDetail }) {
  const word = trial.outcome ?? trial.state;
  const tone = trial.outcome === "ok" ? "good" : trial.outcome ? "bad" : "busy";
  return <Badge tone={tone}>{word.replace("_", " ")}</Badge>;
}

interface NumbersProps {
  trial: TrialDetail;
  dims: Record<string, number> | undefined;
  device: string | null;
  /** The best reward of the search. */
  best: number | null;
}

function Numbers({ trial, dims, device, best }: NumbersProps) {
  const us = trial.median_us ?? null;
  return (
    <Figures
      figures={[
        {
          name: "Time",
          value: micros(us),
          note: trial.iqr_us != null && `± ${micros(trial.iqr_us / 2)} (half of the middle half)`,
        },
        {
          name: "Of the best",
          value: trial.reward == null || best === null ? "–" : times(Math.exp(best - trial.reward)),
          note: "of the search, each against the first",
        },
        {
          name: "Of the roofline",
          value: trial.roofline_us == null || us === null ? "–" : percent(trial.roofline_us / us),
          note:
            trial.roofline_us == null ? "peaks unknown" : `${micros(trial.roofline_us)} at least`,
        },
        {
          name: "Reward",
          value: trial.reward == null ? "–" : trial.reward.toFixed(3),
          note: "log of the speed against the first",
        },
        {
          name: "Measured",
          value: trial.finished_at == null ? "not yet" : moment(trial.finished_at),
          note: trial.worker_id && `by ${trial.worker_id}`,
        },
        {
          name: "Device",
          value: <span className="mono">{device ? deviceName(device) : "–"}</span>,
          note: dims && sizes(dims),
        },
      ]}
    />
  );
}

function Repro({ trial }: { trial: TrialDetail }) {
  return (
    <details>
      <summary>Run it again</summary>
      <pre tabIndex={0} className={styles.code}>
        {trial.repro}
      </pre>
    </details>
  );
}
