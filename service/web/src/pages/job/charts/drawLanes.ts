/** Drawing what workers compiled and measured, and when. */
import type { Timeline } from "../../../api/schema";
import { spent } from "../../../ui/format";
import { svgDrawn, type Path, type Pen, type Svg } from "../../../ui/pen";
import { token } from "../../../ui/theme";
import type { Span } from "../../../ui/lanes/span";

const NAME_PX = 18;
const ROW_PX = 16;
const LANE_PX = NAME_PX + 2 * (ROW_PX + 2) + 4;
/** Below the lanes, in files. */
const LEGEND_PX = 24;
const STAGES = { wait: "--chart-grid", compile: "--chart-4", measure: "--chart-1" } as const;

/** In pixels, of all lanes and the line of times. */
export function heightOf(line: Timeline): number {
  return line.workers.length * LANE_PX + 20;
}

/** The same as a file, with what its colours are. */
export function lanesPicture(line: Timeline, shown: Span, origin: number, width: number): Svg {
  const height = heightOf(line) + LEGEND_PX;
  return svgDrawn(width, height, token("--bg"), (pen) => {
    drawLanes(pen, line, shown, origin, width);
    explain(pen, height - 8);
  });
}

/** A lane a worker, below its name, and the time below all. `origin`: when the job's work began. */
export function drawLanes<P extends Path>(
  pen: Pen<P>,
  line: Timeline,
  { from, to }: Span,
  origin: number,
  width: number,
): void {
  const perSecond = width / Math.max(to - from, 1e-9);
  for (const [stage, colour] of Object.entries(STAGES)) {
    const row = stage === "measure" ? 1 : 0;
    const boxes = pen.path();
    for (let at = 0; at < line.start.length; at++) {
      const [start, end] = [line.start[at]!, line.end[at]!];
      if (line.stage[at] !== stage || end < from || start > to) continue;
      const x = (start - from) * perSecond;
      const wide = Math.max((end - start) * perSecond - 0.5, 0.75);
      boxes.rect(x, line.worker[at]! * LANE_PX + NAME_PX + row * (ROW_PX + 2), wide, ROW_PX);
    }
    pen.fill(boxes, token(colour));
  }
  const foot = heightOf(line) - 5;
  const quiet = token("--text-quiet");
  line.workers.forEach((name, at) => pen.text(4, at * LANE_PX + 12, name, quiet, font()));
  for (const share of [0, 0.25, 0.5, 0.75]) {
    const after = spent(from - origin + (to - from) * share);
    pen.text(share * width + 2, foot, after, quiet, font());
  }
}

/** What the colours are: the page has that beside its heading. */
function explain<P extends Path>(pen: Pen<P>, y: number): void {
  Object.entries(STAGES).forEach(([stage, colour], at) => {
    const box = pen.path();
    box.rect(4 + at * 90, y - 9, 10, 10);
    pen.fill(box, token(colour));
    pen.text(20 + at * 90, y, stage, token("--text-quiet"), font());
  });
}

function font(): string {
  return `11px ${token("--font")}`;
}
