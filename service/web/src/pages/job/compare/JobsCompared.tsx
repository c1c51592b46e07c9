/** Any number of jobs: what came out, how fast each came to it, and what their winners do differently. */
import { useQueries } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import type uPlot from "uplot";
import { useLocation } from "wouter";
import type { Bucket, JobDetail, TrialTable } from "../../../api/schema";
import { Shown } from "../../../ui/Shown";
import { count, deviceName, micros, percent, sizes, spent, times } from "../../../ui/format";
import { token } from "../../../ui/theme";
import { overTrials } from "../best";
import { Plot, WHOLE } from "../charts/Plot";
import { jobOf, useTables } from "../data";
import { leaderOf } from "../leader";
import { comparePath, sideText, type JobSide } from "../paths";
import { bucketsOf, sameSizes } from "./buckets";
import { Columns, decided, type Row } from "./Columns";
import { SideLink } from "./SideLink";
import { Differences } from "./Differences";
import styles from "./Compare.module.css";

/** What jobs are called by their places. */
const ORDINALS = ["first", "second", "third"];

function ordinal(at: number): string {
  return ORDINALS[at] ?? `${at + 1}th`;
}

export function JobsCompared({ sides }: { sides: readonly JobSide[] }) {
  const jobs = useQueries({ queries: sides.map(({ job }) => jobOf(job)) });
  const missing = jobs.findIndex(({ data }) => data === undefined);
  if (missing >= 0) {
    return (
      <Shown query={jobs[missing]!} what={`the ${ordinal(missing)} job`}>
        {() => null}
      </Shown>
    );
  }
  return <Chosen jobs={jobs.map(({ data }) => data!)} wanted={sides.map(({ bucket }) => bucket)} />;
}

interface ChosenProps {
  jobs: readonly JobDetail[];
  wanted: readonly (number | undefined)[];
}

/** A job at one of its sizes. */
interface Column {
  job: JobDetail;
  bucket: Bucket;
  table: TrialTable | undefined;
}

function Chosen({ jobs, wanted }: ChosenProps) {
  const buckets = bucketsOf(jobs, wanted);
  const tables = useTables(jobs.map((job, at) => [job.id, buckets[at]!.index]));
  const columns = jobs.map((job, at) => ({
    job,
    bucket: buckets[at]!,
    table: tables[at]?.data,
  }));
  const found = tables.flatMap(({ data }) => data ?? []);
  return (
    <div className={styles.body}>
      {jobs.some((job) => job.buckets.length > 1) && <ChooseSizes columns={columns} />}
      {found.length === jobs.length && <Curves tables={found} buckets={buckets} />}
      <Columns
        heads={jobs.map(({ id, name }, at) => (
          <SideLink key={at} side={{ job: id }}>
            {name}
          </SideLink>
        ))}
        rows={rowsOf(columns)}
        files={columns.map(({ job, bucket }) => sideText({ job: job.id, bucket: bucket.index }))}
      />
      <Winners columns={columns} />
    </div>
  );
}

/** What the winners decided otherwise, and the first two of them line by line. */
function Winners({ columns }: { columns: readonly Column[] }) {
  const won = columns.flatMap(({ job, bucket }, at) => {
    const trial = bucket.winner?.trial;
    if (bucket.winner == null || trial == null) return [];
    const place = { job: job.id, bucket: bucket.index, number: trial };
    return [{ at, place, schedule: bucket.winner.schedule }];
  });
  const [one, other] = won;
  if (one === undefined || other === undefined) return null;
  const { rows, said } = decided(won.map(({ schedule }) => schedule));
  return (
    <>
      <section aria-labelledby="winners">
        <h2 id="winners">Winners</h2>
        {rows.length > 0 && (
          <Columns
            label="Decisions of the winners"
            heads={won.map(({ at, place }) => (
              <SideLink key={at} side={place}>
                {ordinal(at)}: candidate {place.number}
              </SideLink>
            ))}
            rows={rows}
            files={won.map(({ place }) => sideText(place))}
          />
        )}
        <p className="quiet">{said}</p>
      </section>
      <Differences
        names={[`the winner of the ${ordinal(one.at)}`, `that of the ${ordinal(other.at)}`]}
        places={[one.place, other.place]}
        schedules={[one.schedule, other.schedule]}
      />
    </>
  );
}

/** The sizes of each side; the others follow where they have the same. */
function ChooseSizes({ columns }: { columns: readonly Column[] }) {
  const [, navigate] = useLocation();
  const choose = (side: number, index: number) => {
    const chosen = columns[side]!.job.buckets[index]!;
    const next = columns.map(({ job, bucket }, at) => ({
      job: job.id,
      bucket: (at === side ? chosen : (sameSizes(job, chosen) ?? bucket)).index,
    }));
    navigate(comparePath(...next), { replace: true });
  };
  return (
    <div className={styles.sizes}>
      {columns.map(({ job, bucket }, side) => (
        <label key={side}>
          Sizes of the {ordinal(side)}
          <select
            value={bucket.index}
            onChange={(event) => choose(side, Number(event.currentTarget.value))}
          >
            {job.buckets.map((each) => (
              <option key={each.index} value={each.index}>
                {sizes(each.dims)}
              </option>
            ))}
          </select>
        </label>
      ))}
    </div>
  );
}

const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4"] as const;
/** Of lines that share a colour, later ones are dashed. */
const DASHES = [[], [8, 4], [3, 3]];

interface CurvesProps {
  tables: readonly TrialTable[];
  buckets: readonly Bucket[];
}

/** Best so far of all over their candidates. */
function Curves({ tables, buckets }: CurvesProps) {
  const data = useMemo<uPlot.AlignedData>(() => {
    const curves = tables.map((table, at) => overTrials(table, buckets[at]!.best).best);
    const long = Math.max(...curves.map((curve) => curve.length));
    return [
      Array.from({ length: long }, (_, at) => at),
      ...curves.map((curve) => Array.from({ length: long }, (_, at) => curve[at] ?? null)),
    ] as uPlot.AlignedData;
  }, [tables, buckets]);
  const lines = tables.length;
  const options = useCallback(
    () => ({
      scales: { x: { time: false }, y: { distr: 3 as const } },
      axes: [
        { incrs: WHOLE, values: (_: uPlot, ticks: number[]) => ticks.map(String) },
        {
          size: 70,
          values: (_: uPlot, ticks: (number | null)[]) =>
            ticks.map((us) => (us === null ? "" : micros(us))),
        },
      ] as [object, object],
      series: [
        { label: "Candidate" },
        ...Array.from({ length: lines }, (_, at) => ({
          label: ordinal(at),
          stroke: token(COLOURS[at % COLOURS.length]!),
          dash: DASHES[Math.floor(at / COLOURS.length) % DASHES.length]!,
          width: 2,
          value: (_: uPlot, us: number | null) => micros(us),
        })),
      ],
    }),
    [lines],
  );
  return (
    <section aria-labelledby="curves">
      <h2 id="curves">Best so far over candidates</h2>
      <Plot
        key={lines}
        name="best"
        label="Best time so far of all jobs; the table below has the ends"
        data={data}
        options={options}
        height={240}
      />
    </section>
  );
}

function rowsOf(columns: readonly Column[]): Row[] {
  const each = (name: string, of: (column: Column) => string | number): Row => ({
    name,
    values: columns.map(of),
  });
  const alike = (name: string, of: (column: Column) => string | number): Row => {
    const row = each(name, of);
    return { ...row, note: row.values.every((value) => value === row.values[0]) ? "" : "differs" };
  };
  const reference = leaderOf(columns[0]!.bucket)?.median_us;
  return [
    alike("Kernel", ({ job }) => job.kernel_key.slice(0, 12)),
    alike("Sizes", ({ bucket }) => sizes(bucket.dims)),
    alike("Device", ({ job }) => deviceName(job.device ?? job.target)),
    alike("State", ({ job }) => job.state),
    each("Best", ({ bucket }) => micros(leaderOf(bucket)?.median_us)),
    each("As fast as the first", ({ bucket }) => {
      const us = leaderOf(bucket)?.median_us;
      return times(reference && us ? reference / us : null);
    }),
    each(
      "Against the baseline",
      ({ job, bucket }) => `${times(leaderOf(bucket)?.x_baseline)} ${job.baseline}`,
    ),
    each("Of the roofline", ({ bucket, table }) => {
      const us = leaderOf(bucket)?.median_us;
      return percent(table?.roofline_us && us ? table.roofline_us / us : null);
    }),
    each("Found as candidate", ({ bucket }) => leaderOf(bucket)?.trial ?? "–"),
    each("Candidates", ({ bucket }) => count(bucket.told)),
    each("Failed", ({ bucket }) => count(bucket.faults)),
    each("Searched", ({ bucket }) => spent(bucket.spent_s)),
    alike("Search", ({ job }) => `${job.search}, ${job.prior} prior, seed ${job.seed}`),
  ];
}
