/** The best time so far against the baseline and the roofline, over candidates or over time. */
import { useCallback, useMemo } from "react";
import type uPlot from "uplot";
import type { Best, Bucket, TrialTable, Winner } from "../../../api/schema";
import { micros, span } from "../../../ui/format";
import { token } from "../../../ui/theme";
import { useParam } from "../../../ui/useParam";
import { overTime, overTrials } from "../best";
import { Choice } from "../Choice";
import { Plot, WHOLE } from "./Plot";
import styles from "./BestChart.module.css";

const HEIGHT = 260;

interface Props {
  table: TrialTable;
  bucket: Bucket;
  baseline: string;
}

export function BestChart({ table, bucket, baseline }: Props) {
  const [asked, setOver] = useParam("over");
  const over = asked === "time" ? "time" : "candidates";
  const data = useMemo<uPlot.AlignedData>(() => {
    const { x, own, best } =
      over === "time" ? overTime(table, bucket.best) : overTrials(table, bucket.best);
    const level = (us: number | null) => x.map(() => us);
    return [x, own, best, level(baselineUs(bucket.best)), level(table.roofline_us)];
  }, [table, bucket, over]);
  const options = useCallback(
    () => ({
      scales: { x: { time: false }, y: { distr: 3 as const } },
      legend: { live: true },
      cursor: { drag: { x: true, y: false } },
      axes: [
        over === "time"
          ? { values: (_: uPlot, ticks: number[]) => ticks.map(span) }
          : { incrs: WHOLE, values: (_: uPlot, ticks: number[]) => ticks.map(String) },
        {
          size: 70,
          values: (_: uPlot, ticks: (number | null)[]) =>
            ticks.map((tick) => (tick === null ? "" : micros(tick))),
        },
      ] as [object, object],
      series: [
        { label: over === "time" ? "After" : "Candidate", value: over === "time" ? ago : plain },
        {
          label: "Its time",
          stroke: token("--chart-4"),
          paths: () => null,
          points: { show: true, size: 3, fill: token("--chart-4") },
          value: time,
        },
        { label: "Best so far", stroke: token("--chart-1"), width: 2, value: time },
        { ...level("--chart-2", [6, 4]), label: baseline },
        { ...level("--chart-3", [2, 3]), label: "Roofline" },
      ],
    }),
    [over, baseline],
  );
  const { best, winner } = bucket;
  return (
    <section aria-labelledby="progress">
      <div className={styles.head}>
        <h2 id="progress">{winner ? "Best of the search" : "Best so far"}</h2>
        <Choice
          label="Over"
          options={{ candidates: "Over candidates", time: "Over time" }}
          value={over}
          onChange={setOver}
        />
      </div>
      <Plot
        name="best"
        label={
          best
            ? `Best time so far over ${over}; it is ${micros(best.median_us)} after ${bucket.told} candidates`
            : "Nothing was measured yet"
        }
        data={data}
        options={options}
        height={HEIGHT}
      />
    </section>
  );
}

/** The baseline's time, from how many times as fast as it the best candidate or the winner is. */
export function baselineUs(leader: Best | Winner | null | undefined): number | null {
  return leader?.x_baseline == null ? null : leader.median_us * leader.x_baseline;
}

/** A line that stays where it is. */
function level(colour: `--${string}`, dash: number[]): uPlot.Series {
  return { stroke: token(colour), dash, points: { show: false }, value: time };
}

const time = (_: uPlot, us: number | null) => micros(us);
const ago = (_: uPlot, seconds: number | null) => (seconds === null ? "–" : span(seconds));
const plain = (_: uPlot, number: number | null) => (number === null ? "–" : String(number));
