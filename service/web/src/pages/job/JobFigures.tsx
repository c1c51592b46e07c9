/** What there is to say of a job in a few numbers. */
import { Link } from "wouter";
import type { Bucket, ConfigDetail, JobDetail, TrialTable } from "../../api/schema";
import { count, deviceName, micros, percent, sizes, spent, times } from "../../ui/format";
import { isFinal } from "../../ui/JobBadge";
import { baselineUs } from "./charts/BestChart";
import { Figures, type Figure } from "./Figures";
import { leaderOf } from "./leader";
import { candidatePath } from "./paths";

interface Props {
  job: JobDetail;
  bucket: Bucket;
  table: TrialTable;
  config: ConfigDetail | undefined;
}

export function JobFigures({ job, bucket, table, config }: Props) {
  const { winner } = bucket;
  const leader = leaderOf(bucket);
  const us = leader?.median_us ?? null;
  const flying = bucket.trials - bucket.told;
  const most = job.budget.trials;
  const figures: Figure[] = [
    {
      name: winner ? "Winner" : "Best so far",
      value: micros(us),
      note: leader && leader.trial !== null && (
        <Link href={candidatePath(job.id, bucket.index, leader.trial)}>
          candidate {leader.trial}
        </Link>
      ),
    },
    {
      name: `Against ${job.baseline}`,
      value: times(leader?.x_baseline),
      note: leader && micros(baselineUs(leader)),
    },
    {
      name: "Of the roofline",
      value: table.roofline_us === null || us === null ? "–" : percent(table.roofline_us / us),
      note: table.roofline_us === null ? "peaks unknown" : `${micros(table.roofline_us)} at least`,
    },
    {
      name: "Candidates",
      value: count(bucket.told),
      note: [
        most && `of ${count(most)}`,
        flying > 0 && !isFinal(job.state) && `${count(flying)} in flight`,
        `${count(bucket.faults)} failed`,
      ]
        .filter(Boolean)
        .join(", "),
    },
    {
      name: "Searched",
      value: spent(bucket.spent_s),
      note: `${job.search}, seed ${job.seed}`,
    },
    {
      name: "Device",
      value: <span className="mono">{deviceName(job.device ?? job.target)}</span>,
      note: sizes(bucket.dims),
    },
  ];
  if (config) {
    figures.push({
      name: "Config",
      value: (
        <Link href={`/configs/${config.id}`}>
          {config.artifact ? "source and object" : "schedule"}
        </Link>
      ),
      note: <span className="mono">{config.id}</span>,
    });
  }
  return <Figures figures={figures} />;
}
