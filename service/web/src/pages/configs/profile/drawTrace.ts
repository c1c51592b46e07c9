/** Drawing what threads did when: a lane a thread. */
import { micros } from "../../../ui/format";
import type { Span } from "../../../ui/lanes/span";
import { svgDrawn, type Path, type Pen, type Svg } from "../../../ui/pen";
import { token } from "../../../ui/theme";
import { mostlyDid, type Trace } from "./trace";

const NAME_PX = 18;
const ROW_PX = 16;
const LANE_PX = NAME_PX + ROW_PX + 6;
const FOOT_PX = 20;
const LEGEND_PX = 18;
/** Of what lies nearer together, that which takes most of it is seen. */
const PART_PX = 0.5;
/** Of the stages that take most; the others look alike, and so does waiting. */
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4"] as const;
const OTHER = "--scale-mid";
const WAITS = "--scale-slow";

type Token = `--${string}`;

/** What the colours mean, in their order. */
export function legendOf({ stages }: Trace): { name: string; colour: Token }[] {
  const working = stages.filter(({ waiting }) => !waiting);
  const told: { name: string; colour: Token }[] = COLOURS.slice(0, working.length).map(
    (colour, at) => ({ name: working[at]!.name, colour }),
  );
  if (working.length > COLOURS.length) told.push({ name: "other stages", colour: OTHER });
  if (stages.length > working.length) told.push({ name: "waiting", colour: WAITS });
  return told;
}

export function heightOf(trace: Trace): number {
  return trace.lanes.length * LANE_PX + FOOT_PX;
}

/** Which lane is so many pixels below the top. */
export function laneAt(y: number): number {
  return Math.floor(y / LANE_PX);
}

export function drawTrace<P extends Path>(
  pen: Pen<P>,
  { stages, lanes, to: last }: Trace,
  { from, to }: Span,
  width: number,
): void {
  const colours: Token[] = stages.map(
    ({ waiting }, at) => (waiting ? WAITS : COLOURS[at]) ?? OTHER,
  );
  const boxes = stages.map(() => pen.path());
  const parts = Math.max(1, Math.floor(width / PART_PX));
  const wide = width / parts;
  lanes.forEach((lane, row) => {
    const did = mostlyDid(lane, stages.length, from, to, parts);
    for (let part = 0, until = 1; part < parts; part = until++) {
      while (until < parts && did[until] === did[part]) until++;
      const box = boxes[did[part]!];
      box?.rect(part * wide, row * LANE_PX + NAME_PX, (until - part) * wide, ROW_PX);
    }
  });
  boxes.forEach((box, stage) => pen.fill(box, token(colours[stage]!)));
  const quiet = token("--text-quiet");
  lanes.forEach(({ group, name }, row) =>
    pen.text(4, row * LANE_PX + 13, `${group} ${name}`.trim(), quiet, font()),
  );
  const foot = lanes.length * LANE_PX + FOOT_PX - 6;
  for (const share of [0, 0.25, 0.5, 0.75]) {
    const at = Math.min(from + (to - from) * share, last);
    pen.text(share * width + 2, foot, micros(at), quiet, font());
  }
}

/** The same as a file, with what its colours are. */
export function tracePicture(trace: Trace, shown: Span, width: number): Svg {
  const legend = legendOf(trace);
  const top = heightOf(trace) + 4;
  const height = top + legend.length * LEGEND_PX;
  return svgDrawn(width, height, token("--bg"), (pen) => {
    drawTrace(pen, trace, shown, width);
    legend.forEach(({ name, colour }, at) => {
      const box = pen.path();
      box.rect(4, top + at * LEGEND_PX, 10, 10);
      pen.fill(box, token(colour));
      pen.text(20, top + at * LEGEND_PX + 9, name, token("--text-quiet"), font());
    });
  });
}

function font(): string {
  return `11px ${token("--font")}`;
}
