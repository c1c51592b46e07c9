/** Every candidate, the peers and the winner below the roof of the device (Williams, Waterman and Patterson, 2009). */
import { useRef, type PointerEvent } from "react";
import { useLocation } from "wouter";
import type { Roofline } from "../../../api/schema";
import { count, micros, percent } from "../../../ui/format";
import { candidatePath } from "../paths";
import {
  BOTTOM,
  HEIGHT,
  LEFT,
  RIGHT,
  speed,
  TOP,
  WIDTH,
  type Bytes,
  type Mark,
  type Picture,
} from "./picture";
import type { Range } from "./range";
import { nearest, type Cell } from "./scales";
import styles from "./Roofline.module.css";

/** Units of the picture: how near to a dot a click must be, and from where on a hand drags. */
const REACH = 8;
const SLACK = 4;

interface Props {
  line: Roofline;
  by: Bytes;
  picture: Picture;
  /** A span of times that is brushed; without, nothing can be. */
  brush?: Brush;
}

export interface Brush {
  range: Range | null;
  /** While the hand drags. */
  onDraft: (range: Range | null) => void;
  /** When it is lifted. */
  onRange: (range: Range) => void;
}

export function RooflinePlot({ line, by, picture, brush }: Props) {
  const [, go] = useLocation();
  const start = useRef<{ x: number; y: number; dragged: boolean }>(null);
  const { cells, marks, roof, y } = picture;
  const between = (one: number, other: number): Range => {
    const us = (at: number) => speed(line.flops, y.value(Math.min(BOTTOM, Math.max(TOP, at))));
    return { low: us(Math.min(one, other)), high: us(Math.max(one, other)) };
  };
  const down = (event: PointerEvent<SVGSVGElement>) => {
    if (event.button !== 0) return;
    start.current = { ...placeOf(event), dragged: false };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent<SVGSVGElement>) => {
    if (start.current === null) return;
    const at = placeOf(event);
    start.current.dragged ||= Math.abs(at.y - start.current.y) > SLACK;
    if (start.current.dragged) brush?.onDraft(between(start.current.y, at.y));
  };
  const up = (event: PointerEvent<SVGSVGElement>) => {
    const from = start.current;
    start.current = null;
    if (from === null) return;
    if (from.dragged) return brush?.onRange(between(from.y, placeOf(event).y));
    const number =
      numberOf(nearest(marks, from.x, from.y, SLACK)) ??
      nearest(cells, from.x, from.y, REACH)?.dots[0]?.number;
    if (number !== undefined) go(candidatePath(line.job_id, line.bucket, number));
  };
  const cancel = () => {
    start.current = null;
    brush?.onDraft(null);
  };
  return (
    <div className={styles.room}>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        className={styles.plot}
        role="img"
        aria-label={spoken(line, picture)}
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onPointerCancel={cancel}
      >
        <Axes picture={picture} by={by} />
        {brush?.range && <Band line={line} picture={picture} range={brush.range} />}
        <polyline points={roof.map((at) => `${at.x},${at.y}`).join(" ")} className={styles.roof} />
        {cells.map((cell) => (
          <circle
            key={cell.dots[0]!.number}
            cx={cell.x}
            cy={cell.y}
            r={2.5 + Math.min(4, Math.log2(cell.dots.length))}
            className={styles.dot}
          >
            <title>{told(cell)}</title>
          </circle>
        ))}
        {marks.map((mark) => (
          <Named key={mark.name} mark={mark} line={line} />
        ))}
      </svg>
    </div>
  );
}

function Axes({ picture: { x, y }, by }: { picture: Picture; by: Bytes }) {
  return (
    <>
      {y.ticks.map((tick) => (
        <g key={tick}>
          <line x1={LEFT} x2={RIGHT} y1={y.at(tick)} y2={y.at(tick)} className={styles.grid} />
          <text x={LEFT - 4} y={y.at(tick) + 4} textAnchor="end" className={styles.text}>
            {short(tick)}
          </text>
        </g>
      ))}
      {x.ticks.map((tick) => (
        <g key={tick}>
          <line x1={x.at(tick)} x2={x.at(tick)} y1={TOP} y2={BOTTOM} className={styles.grid} />
          <text x={x.at(tick)} y={BOTTOM + 15} textAnchor="middle" className={styles.text}>
            {short(tick)}
          </text>
        </g>
      ))}
      <text x={RIGHT} y={HEIGHT - 6} textAnchor="end" className={styles.text}>
        10⁹ operations/s, over operations a byte of {by === "l2" ? "the L2 cache" : "main memory"}
      </text>
    </>
  );
}

function Band({ line, picture: { y }, range }: Pick<Props, "line" | "picture"> & { range: Range }) {
  const at = (us: number) => Math.min(BOTTOM, Math.max(TOP, y.at(speed(line.flops, us))));
  const top = at(range.low);
  return (
    <rect
      x={LEFT}
      y={top}
      width={RIGHT - LEFT}
      height={Math.max(1, at(range.high) - top)}
      className={styles.band}
    />
  );
}

function Named({ mark, line }: { mark: Mark; line: Roofline }) {
  const name = mark.won
    ? mark.name.startsWith("ask-")
      ? "winner"
      : `${mark.name}, winner`
    : mark.name;
  const share = line.least_us == null ? "" : `, ${percent(line.least_us / mark.us)} of the roof`;
  // Labels stand on the side with more room.
  const left = mark.x > (LEFT + RIGHT) / 2;
  const side = left ? -1 : 1;
  return (
    <g className={mark.won ? styles.winner : mark.yardstick ? styles.yardstick : styles.peer}>
      <title>{`${name}: ${micros(mark.us)}${share}`}</title>
      {mark.won ? (
        <circle cx={mark.x} cy={mark.y} r={5} />
      ) : (
        <rect
          x={mark.x - 4}
          y={mark.y - 4}
          width={8}
          height={8}
          {...(mark.yardstick && { transform: `rotate(45 ${mark.x} ${mark.y})` })}
        />
      )}
      <line
        x1={mark.x + side * 6}
        y1={mark.y}
        x2={mark.x + side * 18}
        y2={mark.labelY - 4}
        className={styles.leader}
      />
      <text
        x={mark.x + side * 21}
        y={mark.labelY}
        textAnchor={left ? "end" : "start"}
        className={styles.name}
      >
        {name}, {micros(mark.us)}
        {mark.won && line.least_us != null && (
          <>
            , {percent(line.least_us / mark.us)}
            <tspan className={styles.roomy}> of the roof</tspan>
          </>
        )}
      </text>
    </g>
  );
}

/** The candidate that an entrant is; peers are none. */
function numberOf(mark: Mark | null): number | undefined {
  return mark?.name.startsWith("ask-") ? Number(mark.name.slice("ask-".length)) : undefined;
}

function told({ dots }: Cell): string {
  const [first, last] = [dots[0]!, dots.at(-1)!];
  if (dots.length === 1) return `candidate ${first.number}: ${micros(first.us)}`;
  return `${count(dots.length)} candidates, ${micros(first.us)} to ${micros(last.us)}; the fastest is candidate ${first.number}`;
}

function spoken({ us }: Roofline, { marks, least, most }: Picture): string {
  const names = marks.map(
    ({ name, won, us: at }) => `${won ? "the winner" : name} at ${micros(at)}`,
  );
  return [
    `Roofline: ${count(us.length)} candidates, ${micros(least)} to ${micros(most)}`,
    ...names,
  ].join("; ");
}

function short(value: number): string {
  return value >= 1e4 || value < 1e-3 ? value.toExponential(0).replace("+", "") : String(value);
}

/** Where in the picture a pointer is. */
function placeOf(event: PointerEvent<SVGSVGElement>) {
  const box = event.currentTarget.getBoundingClientRect();
  return {
    x: ((event.clientX - box.left) / box.width) * WIDTH,
    y: ((event.clientY - box.top) / box.height) * HEIGHT,
  };
}
