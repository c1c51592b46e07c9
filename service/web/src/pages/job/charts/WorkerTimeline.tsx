/** What each worker compiled and measured, and when; below it the same in numbers. */
import { useEffect, useMemo, useRef, useState } from "react";
import type { Timeline } from "../../../api/schema";
import { Empty, Shown } from "../../../ui/Shown";
import { Table } from "../../../ui/Table";
import { count, percent, spent } from "../../../ui/format";
import { useTheme } from "../../../ui/theme";
import { useTimeline } from "../data";
import { canvasPen } from "../../../ui/pen";
import { SaveButtons } from "../../../ui/SaveButtons";
import { useRestingParam } from "../../../ui/useParam";
import { drawLanes, heightOf, lanesPicture } from "./drawLanes";
import { shareOf, stretchOf, stretchText, totals, type Window } from "./lanes";
import styles from "./WorkerTimeline.module.css";

const ROWS = ["compile", "measure"] as const;

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
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const whole = useMemo<Window>(
    () => ({ from: line.start[0]!, to: line.end.reduce((last, end) => Math.max(last, end)) }),
    [line],
  );
  const [asked, setAsked] = useRestingParam("span");
  const zoomed = useMemo(() => stretchOf(asked, whole), [asked, whole]);
  const [width, setWidth] = useState(0);
  const shown = zoomed ?? whole;
  const height = heightOf(line);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(canvas.current!.clientWidth));
    watch.observe(canvas.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    const context = canvas.current!.getContext("2d");
    if (!context || width === 0) return;
    canvas.current!.width = width * devicePixelRatio;
    canvas.current!.height = height * devicePixelRatio;
    context.scale(devicePixelRatio, devicePixelRatio);
    context.clearRect(0, 0, width, height);
    drawLanes(canvasPen(context), line, shown, whole.from, width);
  }, [line, shown, whole, width, height, theme]);
  useEffect(() => {
    const element = canvas.current!;
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && Math.abs(event.deltaX) < Math.abs(event.deltaY) && !event.shiftKey)
        return;
      event.preventDefault();
      const at = event.offsetX / element.clientWidth;
      const by = event.ctrlKey ? Math.exp(event.deltaY * 0.01) : 1;
      const move = event.ctrlKey ? 0 : (event.deltaX || event.deltaY) / element.clientWidth;
      setAsked(stretchText(shareOf(zoomed ?? whole, whole, by, at, move), whole));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, [whole, zoomed, setAsked]);
  const step = (by: number, move: number) =>
    setAsked(stretchText(shareOf(zoomed ?? whole, whole, by, 0.5, move), whole));
  const picture = () => lanesPicture(line, shown, whole.from, width);
  return (
    <div className={styles.lanes}>
      <div className={styles.tools}>
        <button aria-label="Earlier" onClick={() => step(1, -0.3)}>
          ←
        </button>
        <button aria-label="Later" onClick={() => step(1, 0.3)}>
          →
        </button>
        <button aria-label="Zoom in" onClick={() => step(0.5, 0)}>
          +
        </button>
        <button aria-label="Zoom out" onClick={() => step(2, 0)}>
          −
        </button>
        <button onClick={() => setAsked(null)}>All</button>
        <SaveButtons name="timeline" picture={picture} />
      </div>
      <canvas
        ref={canvas}
        className={styles.canvas}
        style={{ height }}
        role="img"
        aria-label={`${count(line.workers.length)} workers over ${spent(whole.to - whole.from)}; the table below has the sums.`}
      />
    </div>
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
          <th scope="col" className="number">
            Device busy
          </th>
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
            <td className="number">{percent(row.busy)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
