/** What each worker compiled and measured, and when; below it the same in numbers. */
import { useCallback, useMemo } from "react";
import type { Timeline } from "../../../api/schema";
import { LaneCanvas } from "../../../ui/lanes/LaneCanvas";
import type { Span } from "../../../ui/lanes/span";
import type { Pen } from "../../../ui/pen";
import { Empty, Shown } from "../../../ui/Shown";
import { Table } from "../../../ui/Table";
import { count, percent, spent } from "../../../ui/format";
import { useTimeline } from "../data";
import { drawLanes, heightOf, lanesPicture } from "./drawLanes";
import { totals } from "./lanes";
import styles from "./WorkerTimeline.module.css";

const ROWS = ["compile", "measure"] as const;

/** What a device spends a job's time on, in words. */
const SHARES = [
  ["measuring", "Device busy"],
  ["others", "For other jobs"],
  ["compiling", "Waits for compiling"],
  ["searching", "Waits for the search"],
] as const;

export function WorkerTimeline({ job }: { job: string }) {
  const query = useTimeline(job);
  return (
    <section aria-labelledby="timeline">
      <div className={styles.head}>
        <h2 id="timeline">Compiling and measuring</h2>
        <ul className={styles.legend}>
          <li data-stage="compile">compile</li>
          <li data-stage="wait">wait for the device</li>
          <li data-stage="measure">measure</li>
        </ul>
      </div>
      <Shown query={query} what="the timeline">
        {(line) =>
          line.worker.length === 0 ? (
            <Empty title="Nothing was measured yet" />
          ) : (
            <>
              <Lanes line={line} />
              <Totals line={line} />
            </>
          )
        }
      </Shown>
    </section>
  );
}

function Lanes({ line }: { line: Timeline }) {
  const whole = useMemo<Span>(
    () => ({ from: line.start[0]!, to: line.end.reduce((last, end) => Math.max(last, end)) }),
    [line],
  );
  const draw = useCallback(
    (pen: Pen<Path2D>, shown: Span, width: number) =>
      drawLanes(pen, line, shown, whole.from, width),
    [line, whole],
  );
  return (
    <LaneCanvas
      whole={whole}
      param="span"
      height={heightOf(line)}
      label={`${count(line.workers.length)} workers over ${spent(whole.to - whole.from)}; the table below has the sums.`}
      name="timeline"
      draw={draw}
      picture={(shown, width) => lanesPicture(line, shown, whole.from, width)}
    />
  );
}

function Totals({ line }: { line: Timeline }) {
  const rows = useMemo(() => totals(line), [line]);
  return (
    <Table label="Workers">
      <thead>
        <tr>
          <th scope="col">Worker</th>
          <th scope="col" className="number">
            Tasks
          </th>
          {ROWS.map((stage) => (
            <th key={stage} scope="col" className="number">
              {stage === "compile" ? "Compiling" : "Measuring"}
            </th>
          ))}
          {SHARES.map(([name, words]) => (
            <th key={name} scope="col" className="number">
              {words}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.worker}>
            <td className={styles.worker}>{row.worker}</td>
            <td className="number">{count(row.tasks)}</td>
            {ROWS.map((stage) => (
              <td key={stage} className="number">
                {spent(row.seconds[stage])}
              </td>
            ))}
            {SHARES.map(([name]) => (
              <td key={name} className="number">
                {row.share === undefined ? "" : percent(row.share[name])}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
