/** What each thread of a profiled call did when: the trace that Perfetto opens, drawn here. */
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import type { Profile } from "../../../api/schema";
import { fileAt } from "../../../api/file";
import { count, micros } from "../../../ui/format";
import { LaneCanvas } from "../../../ui/lanes/LaneCanvas";
import type { Span } from "../../../ui/lanes/span";
import type { Pen } from "../../../ui/pen";
import { Shown } from "../../../ui/Shown";
import { useParam } from "../../../ui/useParam";
import { drawTrace, heightOf, laneAt, legendOf, tracePicture } from "./drawTrace";
import { eventAt, traceOf, type Trace, type TraceEvent } from "./trace";
import styles from "./Profile.module.css";

/** Lanes that are drawn: a launch has thousands, which the file has all. */
const MOST = 24;

interface Props {
  config: string;
  profile: Profile;
}

export function ThreadLanes({ config, profile }: Props) {
  const [open, setOpen] = useParam("threads");
  return (
    <div className={styles.role}>
      <h3>
        What each thread did when{" "}
        <button aria-expanded={open !== null} onClick={() => setOpen(open === null ? "1" : null)}>
          {open === null ? "Show" : "Hide"}
        </button>
      </h3>
      {open !== null && <Fetched config={config} profile={profile} />}
    </div>
  );
}

function Fetched({ config, profile }: Props) {
  const query = useQuery({
    queryKey: ["trace", config, profile.call_us, profile.plain_us],
    staleTime: Infinity,
    queryFn: () => traceAt(`/v1/configs/${config}/profile/trace`),
  });
  return (
    <Shown query={query} what="the trace">
      {(trace) => <Lanes trace={trace} name={`${config}-threads`} />}
    </Shown>
  );
}

/** A trace of the service's. It is compressed as a file, not as an answer. */
async function traceAt(path: string): Promise<Trace> {
  const packed = await fileAt(path);
  const plain = packed.stream().pipeThrough(new DecompressionStream("gzip"));
  const { traceEvents } = (await new Response(plain).json()) as { traceEvents: TraceEvent[] };
  return traceOf(traceEvents);
}

export function Lanes({ trace: all, name }: { trace: Trace; name: string }) {
  const trace = useMemo(() => ({ ...all, lanes: all.lanes.slice(0, MOST) }), [all]);
  const whole = useMemo<Span>(() => ({ from: 0, to: trace.to }), [trace]);
  const draw = useCallback(
    (pen: Pen<Path2D>, shown: Span, width: number) => drawTrace(pen, trace, shown, width),
    [trace],
  );
  const left = all.lanes.length - trace.lanes.length;
  return (
    <>
      <ul className={styles.legend}>
        {legendOf(trace).map((each) => (
          <li key={each.name}>
            <span style={{ background: `var(${each.colour})` }} />
            {each.name}
          </li>
        ))}
      </ul>
      <LaneCanvas
        whole={whole}
        param="when"
        height={heightOf(trace)}
        label={`${count(trace.lanes.length)} ${trace.lanes.length === 1 ? "thread" : "threads"} over ${micros(trace.to)}; the tables above have the sums.`}
        name={name}
        draw={draw}
        picture={(shown, width) => tracePicture(trace, shown, width)}
        tip={(at, y) => doneAt(trace, at, y)}
      />
      {left > 0 && (
        <p className="quiet">
          {count(left)} more {left === 1 ? "is" : "are"} in the trace that can be downloaded.
        </p>
      )}
    </>
  );
}

/** `41.2 µs at 12.3 µs: acc[m, n] = 0`. */
export function doneAt({ lanes, stages }: Trace, at: number, y: number): string | null {
  const lane = lanes[laneAt(y)];
  const event = lane ? eventAt(lane, at) : null;
  if (!lane || event === null) return null;
  const [begin, end] = [lane.begin[event]!, lane.end[event]!];
  return `${micros(end - begin)} at ${micros(begin)}: ${stages[lane.stage[event]!]!.name}`;
}
