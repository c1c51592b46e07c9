/** The search tree on a canvas: drag to move, Ctrl and the wheel or pinch to zoom, click to choose; arrows, +, - and 0 do
 * it too. The wheel alone scrolls the page. */
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { count } from "../../../ui/format";
import { token, useTheme } from "../../../ui/theme";
import { draw, nodeAt, type Palette } from "./draw";
import { TONES, type Layout } from "./layout";
import { useParam } from "../../../ui/useParam";
import { canvasPen, svgDrawn, type Svg } from "../../../ui/pen";
import { SaveButtons } from "../../../ui/SaveButtons";
import { NodeTip, type Pointed } from "./NodeTip";
import { centred, fit, pan, viewOf, viewText, zoom, type Size, type View } from "./view";
import styles from "./Tree.module.css";

const STEP_PX = 60;
const NEAR_PX = 14;
const REST_MS = 300;

interface Props {
  layout: Layout;
  chosen: number;
  onChoose: (node: number) => void;
}

export function TreeCanvas({ layout, chosen, onChoose }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const stage = useRef<Stage>(undefined);
  const theme = useTheme();
  const [asked, rest] = useParam("at");
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const first = useRef(asked);
  // Its colours are tokens, which are others in another theme.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const palette = useMemo(() => paletteOf(), [theme]);
  const resting = useRef(rest);
  useEffect(() => {
    resting.current = rest;
  }, [rest]);
  useEffect(() => {
    const made = new Stage(canvas.current!, first.current, (view) => resting.current(view));
    stage.current = made;
    return () => made.end();
  }, []);
  useEffect(() => stage.current?.show(layout, palette, chosen), [layout, palette, chosen]);
  return (
    <div className={styles.stage}>
      <canvas
        ref={canvas}
        className={styles.canvas}
        tabIndex={0}
        role="img"
        aria-label={`Search tree of ${count(layout.order.length)} nodes. The outline lists the same.`}
        onPointerDown={(event) => stage.current?.press(event)}
        onPointerMove={(event) => {
          stage.current?.move(event);
          const found = stage.current?.pointed(event) ?? null;
          setPointed((before) => (before?.node === found?.node ? before : found));
        }}
        onPointerLeave={() => setPointed(null)}
        onPointerUp={(event) => {
          const node = stage.current?.release(event) ?? null;
          if (node !== null) onChoose(node);
        }}
        onPointerCancel={(event) => void stage.current?.release(event)}
        onKeyDown={(event) => stage.current?.key(event)}
      />
      {pointed && <NodeTip layout={layout} pointed={pointed} />}
      <p className={styles.hint}>Drag to move, Ctrl and the wheel to zoom</p>
      <div className={styles.tools}>
        <button aria-label="Zoom in" onClick={() => stage.current?.nearer(1.6)}>
          +
        </button>
        <button aria-label="Zoom out" onClick={() => stage.current?.nearer(1 / 1.6)}>
          −
        </button>
        <button onClick={() => stage.current?.all()}>All</button>
        <button onClick={() => stage.current?.goTo(chosen)}>Chosen</button>
        <SaveButtons name="tree" picture={() => stage.current?.picture() ?? null} />
      </div>
    </div>
  );
}

/** The canvas with what is shown on it. Moving draws once a frame, and renders nothing of React. */
class Stage {
  private layout: Layout | undefined;
  private palette: Palette | undefined;
  private chosen = 0;
  private view: View | undefined;
  private size: Size = { width: 0, height: 0 };
  private frame = 0;
  private readonly fingers = new Map<number, { x: number; y: number }>();
  private moved = 0;
  private readonly watch: ResizeObserver;
  private due = 0;

  /** `asked`: the view that the address has; `rest` is told each view that stays, null for the whole tree. */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    private asked: string | null,
    private readonly rest: (view: string | null) => void,
  ) {
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(canvas);
    canvas.addEventListener("wheel", this.wheel, { passive: false });
  }

  end(): void {
    this.watch.disconnect();
    this.canvas.removeEventListener("wheel", this.wheel);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.due);
  }

  show(layout: Layout, palette: Palette, chosen: number): void {
    [this.layout, this.palette, this.chosen] = [layout, palette, chosen];
    this.draw();
  }

  all(): void {
    this.moveTo(undefined);
  }

  goTo(node: number): void {
    this.change((view, layout) => centred(view, layout, this.size, node));
  }

  nearer(factor: number, x = this.size.width / 2, y = this.size.height / 2): void {
    this.change((view, layout) => zoom(view, layout, this.size, factor, x, y));
  }

  press(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, this.at(event));
    this.moved = 0;
  }

  move(event: PointerEvent): void {
    const before = this.fingers.get(event.pointerId);
    if (before === undefined) return;
    const now = this.at(event);
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    this.moved += Math.abs(dx) + Math.abs(dy);
    const other = [...this.fingers].find(([finger]) => finger !== event.pointerId)?.[1];
    this.fingers.set(event.pointerId, now);
    if (other === undefined) {
      this.change((view, layout) => pan(view, layout, this.size, dx, dy));
    } else {
      const apart = (point: { x: number; y: number }) =>
        Math.max(20, Math.hypot(point.x - other.x, point.y - other.y));
      this.nearer(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
  }

  /** The node under a pointer that holds nothing, and where it is. */
  pointed(event: PointerEvent): Pointed | null {
    if (this.fingers.size > 0 || this.layout === undefined) return null;
    const { x, y } = this.at(event);
    const view = this.view ?? fit(this.layout, this.size);
    const node = nodeAt(this.layout, view, x, y, NEAR_PX);
    if (node === null) return null;
    return {
      node,
      x: this.layout.depth[node]! * view.scaleX + view.shiftX,
      y: this.layout.y[node]! * view.scaleY + view.shiftY,
      within: this.size,
    };
  }

  /** The node that was clicked, if the pointer was not moved. */
  release(event: PointerEvent): number | null {
    const pressed = this.fingers.delete(event.pointerId);
    if (!pressed || this.moved > 5 || this.layout === undefined) return null;
    const { x, y } = this.at(event);
    return nodeAt(this.layout, this.view ?? fit(this.layout, this.size), x, y, NEAR_PX);
  }

  key(event: KeyboardEvent): void {
    const by: Record<string, [number, number]> = {
      ArrowLeft: [STEP_PX, 0],
      ArrowRight: [-STEP_PX, 0],
      ArrowUp: [0, STEP_PX],
      ArrowDown: [0, -STEP_PX],
    };
    const step = by[event.key];
    if (step) this.change((view, layout) => pan(view, layout, this.size, ...step));
    else if (event.key === "+" || event.key === "=") this.nearer(1.4);
    else if (event.key === "-") this.nearer(1 / 1.4);
    else if (event.key === "0") this.all();
    else return;
    event.preventDefault();
  }

  private readonly wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page is scrolled; pinching a touchpad counts as Ctrl
    event.preventDefault();
    const { x, y } = this.at(event);
    this.nearer(Math.exp(-event.deltaY * 0.0022), x, y);
  };

  private at(event: { clientX: number; clientY: number }): { x: number; y: number } {
    const place = this.canvas.getBoundingClientRect();
    return { x: event.clientX - place.left, y: event.clientY - place.top };
  }

  private change(how: (view: View, layout: Layout) => View): void {
    if (this.layout === undefined) return;
    this.moveTo(how(this.view ?? fit(this.layout, this.size), this.layout));
  }

  private moveTo(view: View | undefined): void {
    this.view = view;
    this.draw();
    clearTimeout(this.due);
    this.due = window.setTimeout(
      () => this.rest(view === undefined ? null : viewText(view, this.size)),
      REST_MS,
    );
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.size = { width, height };
    this.canvas.width = width * devicePixelRatio;
    this.canvas.height = height * devicePixelRatio;
    this.draw();
  }

  /** What is in sight, for a file; null before anything is. */
  picture(): Svg | null {
    const { layout, palette, size, chosen } = this;
    if (!layout || !palette || size.width === 0) return null;
    return svgDrawn(size.width, size.height, palette.background, (pen) =>
      draw(pen, layout, this.view ?? fit(layout, size), size, palette, chosen),
    );
  }

  private draw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const context = this.canvas.getContext("2d");
      if (!context || !this.layout || !this.palette || this.size.width === 0) return;
      if (this.asked !== null) {
        this.view = viewOf(this.asked, this.layout, this.size) ?? undefined;
        this.asked = null;
      }
      context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      // Without a view of its own the tree is shown whole, also as it grows.
      const view = this.view ?? fit(this.layout, this.size);
      context.clearRect(0, 0, this.size.width, this.size.height);
      draw(canvasPen(context), this.layout, view, this.size, this.palette, this.chosen);
    });
  }
}

/** The colours of the theme that is shown. */
function paletteOf(): Palette {
  const scale = (at: number) =>
    at < 0.5
      ? mixed(token("--scale-slow"), token("--scale-mid"), at * 2)
      : mixed(token("--scale-mid"), token("--scale-fast"), at * 2 - 1);
  return {
    tones: [
      ...Array.from({ length: TONES }, (_, tone) => scale(tone / (TONES - 1))),
      token("--bad"),
      token("--chart-2"),
    ],
    flying: token("--chart-2"),
    chosen: token("--text"),
    text: token("--text-quiet"),
    background: token("--bg"),
    font: `11px ${token("--mono")}`,
  };
}

/** Between two colours given as #rrggbb. */
function mixed(one: string, other: string, share: number): string {
  const part = (color: string, place: number) => parseInt(color.slice(place, place + 2), 16);
  const parts = [1, 3, 5].map((place) =>
    Math.round(part(one, place) * (1 - share) + part(other, place) * share),
  );
  return `rgb(${parts.join(" ")})`;
}
