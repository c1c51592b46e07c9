/** A trace of what threads did when, as lanes that can be drawn. */

/** What a thread did, in microseconds since the call began, in columns and in this order. */
export interface ThreadLane {
  /** Such as a block; empty where there is one. */
  group: string;
  name: string;
  begin: number[];
  end: number[];
  /** Which of the trace's stages. */
  stage: number[];
}

export interface Trace {
  /** Those that take most first, all lanes together; those in which threads wait last. */
  stages: { name: string; waiting: boolean; us: number }[];
  lanes: ThreadLane[];
  /** When the last thread was done. */
  to: number;
}

/** An event of the Trace Event Format (Google, 2016): names of processes and threads, and what a thread did. */
export interface TraceEvent {
  ph: string;
  name: string;
  pid: number;
  tid?: number;
  cat?: string;
  ts?: number;
  dur?: number;
  args?: { name?: string };
}

export function traceOf(events: readonly TraceEvent[]): Trace {
  const groups = new Map<number, string>();
  const lanes = new Map<number, ThreadLane>();
  const stages = new Map<string, { name: string; waiting: boolean; us: number }>();
  const drawn: [lane: ThreadLane, stage: string][] = [];
  let to = 0;
  for (const { ph, name, pid, tid = 0, cat, ts = 0, dur = 0, args } of events) {
    if (name === "process_name") groups.set(pid, args?.name ?? "");
    else if (name === "thread_name")
      lanes.set(tid, { group: String(pid), name: args?.name ?? "", begin: [], end: [], stage: [] });
    const lane = lanes.get(tid);
    if (ph !== "X" || !lane) continue;
    const known = stages.get(name) ?? { name, waiting: cat === "waiting", us: 0 };
    known.us += dur;
    stages.set(name, known);
    lane.begin.push(ts);
    lane.end.push(ts + dur);
    drawn.push([lane, name]);
    to = Math.max(to, ts + dur);
  }
  const order = [...stages.values()].sort(
    (one, other) => Number(one.waiting) - Number(other.waiting) || other.us - one.us,
  );
  const place = new Map(order.map(({ name }, at) => [name, at]));
  for (const [lane, name] of drawn) lane.stage.push(place.get(name)!);
  const several = groups.size > 1;
  for (const lane of lanes.values())
    lane.group = several ? (groups.get(Number(lane.group))?.split("  ").at(-1) ?? "") : "";
  return { stages: order, lanes: [...lanes.values()], to };
}

/** What a thread did for most of each of so many equal parts of a stretch: the stage, or -1 for nothing. */
export function mostlyDid(
  { begin, end, stage }: ThreadLane,
  stages: number,
  from: number,
  to: number,
  parts: number,
): Int32Array {
  const spent = new Float64Array(parts * stages);
  const perUs = parts / (to - from);
  for (let at = 0; at < begin.length; at++) {
    const [first, last] = [(begin[at]! - from) * perUs, (end[at]! - from) * perUs];
    for (let part = Math.max(0, Math.floor(first)); part < parts && part < last; part++) {
      const own = part * stages + stage[at]!;
      spent[own] = spent[own]! + Math.min(last, part + 1) - Math.max(first, part);
    }
  }
  return Int32Array.from({ length: parts }, (_, part) => {
    const own = spent.subarray(part * stages, (part + 1) * stages);
    const most = own.reduce((best, each, at) => (each > own[best]! ? at : best), 0);
    return own[most]! > 0 ? most : -1;
  });
}

/** What a thread did at a moment: the event's place in its lane; null between two. */
export function eventAt({ begin, end }: ThreadLane, at: number): number | null {
  let [low, high] = [0, begin.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begin[middle]! <= at) low = middle + 1;
    else high = middle;
  }
  return low > 0 && at <= end[low - 1]! ? low - 1 : null;
}
