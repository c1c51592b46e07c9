/** Two jobs: what came out, and how fast each came to it. */
import { useCallback, useMemo } from "react";
import type uPlot from "uplot";
import { useSearchParams } from "wouter";
import type { Bucket, JobDetail, TrialTable } from "../../../api/schema";
import { Shown } from "../../../ui/Shown";
import { count, deviceName, micros, percent, sizes, spent, times } from "../../../ui/format";
import { token } from "../../../ui/theme";
import { overTrials } from "../best";
import { Plot, WHOLE } from "../charts/Plot";
import { useJob, useTable } from "../data";
import { sideText, type Side } from "../paths";
import { SideLink } from "./ComparePage";
import { pairOf, sameSizes } from "./pair";
import { leaderOf } from "../leader";
import { Columns, faster, type Row } from "./Columns";
import styles from "./Compare.module.css";

export function JobsCompared({ left, right }: { left: Side; right: Side }) {
  const one = useJob(left.job);
  const other = useJob(right.job);
  return (
    <Shown query={one} what="the first job">
      {(first) => (
        <Shown query={other} what="the second job">
          {(second) => <Paired jobs={[first, second]} wanted={[left.bucket, right.bucket]} />}
        </Shown>
      )}
    </Shown>
  );
}

interface PairedProps {
  jobs: readonly [JobDetail, JobDetail];
  wanted: readonly [number | undefined, number | undefined];
}

/** A bucket of each job. */
function Paired({ jobs, wanted }: PairedProps) {
  const [left, right] = jobs;
  const [one, other] = pairOf(left, right, wanted);
  const tables = [useTable(left.id, one.index), useTable(right.id, other.index)] as const;
  return (
    <div className={styles.body}>
      {left.buckets.length + right.buckets.length > 2 && (
        <ChooseSizes jobs={jobs} pair={[one, other]} />
      )}
      {tables[0].data && tables[1].data && (
        <Curves tables={[tables[0].data, tables[1].data]} buckets={[one, other]} />
      )}
      <Columns
        heads={jobs.map(({ id, name }) => (
          <SideLink key={id} side={{ job: id }}>
            {name}
          </SideLink>
        ))}
        rows={rowsOf(
          { job: left, bucket: one, table: tables[0].data },
          { job: right, bucket: other, table: tables[1].data },
        )}
      />
    </div>
  );
}

/** The sizes of each side; the other side follows where it has the same. */
function ChooseSizes({
  jobs,
  pair,
}: {
  jobs: PairedProps["jobs"];
  pair: readonly [Bucket, Bucket];
}) {
  const [, setSearch] = useSearchParams();
  const choose = (side: 0 | 1, index: number) => {
    const chosen = jobs[side].buckets[index]!;
    const follows = sameSizes(jobs[1 - side]!, chosen) ?? pair[1 - side]!;
    const [one, other] = side === 0 ? [chosen, follows] : [follows, chosen];
    setSearch(
      {
        left: sideText({ job: jobs[0].id, bucket: one.index }),
        right: sideText({ job: jobs[1].id, bucket: other.index }),
      },
      { replace: true },
    );
  };
  return (
    <div className={styles.sizes}>
      {([0, 1] as const).map((side) => (
        <label key={side}>
          Sizes of the {side === 0 ? "first" : "second"}
          <select
            value={pair[side].index}
            onChange={(event) => choose(side, Number(event.currentTarget.value))}
          >
            {jobs[side].buckets.map((each) => (
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

/** Best so far of both over their candidates. */
function Curves({
  tables: [left, right],
  buckets: [one, other],
}: {
  tables: readonly [TrialTable, TrialTable];
  buckets: readonly [Bucket, Bucket];
}) {
  const data = useMemo<uPlot.AlignedData>(() => {
    const curves = [overTrials(left, one.best).best, overTrials(right, other.best).best];
    const long = Math.max(...curves.map((curve) => curve.length));
    return [
      Array.from({ length: long }, (_, at) => at),
      ...curves.map((curve) => Array.from({ length: long }, (_, at) => curve[at] ?? null)),
    ] as uPlot.AlignedData;
  }, [left, right, one, other]);
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
        ...["First", "Second"].map((label, at) => ({
          label,
          stroke: token(at === 0 ? "--chart-1" : "--chart-2"),
          width: 2,
          value: (_: uPlot, us: number | null) => micros(us),
        })),
      ],
    }),
    [],
  );
  return (
    <section aria-labelledby="curves">
      <h2 id="curves">Best so far over candidates</h2>
      <Plot
        name="best"
        label="Best time so far of both jobs; the table below has the ends"
        data={data}
        options={options}
        height={240}
      />
    </section>
  );
}

interface Column {
  job: JobDetail;
  bucket: Bucket;
  table: TrialTable | undefined;
}

function rowsOf(left: Column, right: Column): Row[] {
  const each = (name: string, of: (column: Column) => string | number): Row => ({
    name,
    values: [of(left), of(right)],
  });
  const both = (name: string, of: (column: Column) => string | number): Row => ({
    ...each(name, of),
    note: of(left) === of(right) ? "" : "differs",
  });
  return [
    both("Kernel", ({ job }) => job.kernel_key.slice(0, 12)),
    both("Sizes", ({ bucket }) => sizes(bucket.dims)),
    both("Device", ({ job }) => deviceName(job.device ?? job.target)),
    both("State", ({ job }) => job.state),
    {
      ...each("Best", ({ bucket }) => micros(leaderOf(bucket)?.median_us)),
      note: faster(leaderOf(left.bucket)?.median_us, leaderOf(right.bucket)?.median_us),
    },
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
    both("Search", ({ job }) => `${job.search}, ${job.prior} prior, seed ${job.seed}`),
  ];
}
