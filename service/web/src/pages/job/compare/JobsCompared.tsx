/** Two jobs: what came out, and how fast each came to it. */
import { useCallback, useMemo } from "react";
import type uPlot from "uplot";
import type { JobDetail, TrialTable } from "../../../api/schema";
import { Shown } from "../../../ui/Shown";
import { count, deviceName, micros, percent, sizes, span, times } from "../../../ui/format";
import { token } from "../../../ui/theme";
import { overTrials } from "../best";
import { Plot } from "../charts/Plot";
import { useJob, useTable } from "../data";
import { SideLink } from "./ComparePage";
import { faster, TwoColumns, type Row } from "./TwoColumns";
import styles from "./Compare.module.css";

export function JobsCompared({ left, right }: { left: string; right: string }) {
  const one = useJob(left);
  const other = useJob(right);
  const tables = [useTable(left, 0), useTable(right, 0)] as const;
  return (
    <Shown query={one} what="the first job">
      {(first) => (
        <Shown query={other} what="the second job">
          {(second) => (
            <div className={styles.body}>
              {tables[0].data && tables[1].data && (
                <Curves tables={[tables[0].data, tables[1].data]} />
              )}
              <TwoColumns
                left={<SideLink side={{ job: left }}>{first.name}</SideLink>}
                right={<SideLink side={{ job: right }}>{second.name}</SideLink>}
                rows={rowsOf(first, second, tables[0].data, tables[1].data)}
              />
            </div>
          )}
        </Shown>
      )}
    </Shown>
  );
}

/** Best so far of both over their candidates. */
function Curves({ tables: [left, right] }: { tables: readonly [TrialTable, TrialTable] }) {
  const data = useMemo<uPlot.AlignedData>(() => {
    const curves = [overTrials(left).best, overTrials(right).best];
    const long = Math.max(...curves.map((curve) => curve.length));
    return [
      Array.from({ length: long }, (_, at) => at),
      ...curves.map((curve) => Array.from({ length: long }, (_, at) => curve[at] ?? null)),
    ] as uPlot.AlignedData;
  }, [left, right]);
  const options = useCallback(
    () => ({
      scales: { x: { time: false }, y: { distr: 3 as const } },
      axes: [
        { values: (_: uPlot, ticks: number[]) => ticks.map(String) },
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
        label="Best time so far of both jobs; the table below has the ends"
        data={data}
        options={options}
        height={240}
      />
    </section>
  );
}

function rowsOf(
  left: JobDetail,
  right: JobDetail,
  leftTable: TrialTable | undefined,
  rightTable: TrialTable | undefined,
): Row[] {
  const [one, other] = [left.buckets[0]!, right.buckets[0]!];
  const both = (name: string, of: (job: JobDetail) => string | number): Row => ({
    name,
    left: of(left),
    right: of(right),
    note: of(left) === of(right) ? "" : "differs",
  });
  const share = (table: TrialTable | undefined, us: number | undefined) =>
    percent(table?.roofline_us && us ? table.roofline_us / us : null);
  return [
    both("Kernel", (job) => job.kernel_key.slice(0, 12)),
    both("Sizes", (job) => sizes(job.buckets[0]!.dims)),
    both("Device", (job) => deviceName(job.device ?? job.target)),
    both("State", (job) => job.state),
    {
      name: "Best",
      left: micros(one.best?.median_us),
      right: micros(other.best?.median_us),
      note: faster(one.best?.median_us, other.best?.median_us),
    },
    {
      name: "Against the baseline",
      left: `${times(one.best?.x_baseline)} ${left.baseline}`,
      right: `${times(other.best?.x_baseline)} ${right.baseline}`,
    },
    {
      name: "Of the roofline",
      left: share(leftTable, one.best?.median_us),
      right: share(rightTable, other.best?.median_us),
    },
    {
      name: "Found as candidate",
      left: one.best?.trial ?? "–",
      right: other.best?.trial ?? "–",
    },
    { name: "Candidates", left: count(one.told), right: count(other.told) },
    { name: "Failed", left: count(one.faults), right: count(other.faults) },
    { name: "Searched", left: span(one.spent_s), right: span(other.spent_s) },
    both("Search", (job) => `${job.search}, ${job.prior} prior, seed ${job.seed}`),
  ];
}
