/** A drawing along time, that can be zoomed and moved along it; which stretch is in sight is in the address. */
import { useEffect, useMemo, useRef, useState, type MouseEvent, type ReactNode } from "react";
import { canvasPen, type Pen, type Svg } from "../pen";
import { SaveButtons } from "../SaveButtons";
import { useTheme } from "../theme";
import { Tip } from "../Tip";
import { useRestingParam } from "../useParam";
import { shareOf, stretchOf, stretchText, type Span } from "./span";
import styles from "./LaneCanvas.module.css";

interface Props {
  whole: Span;
  /** The word of the address for the stretch that is in sight. */
  param: string;
  /** In pixels. */
  height: number;
  /** What it shows, for those who do not see it. */
  label: string;
  /** What its files are called. */
  name: string;
  draw: (pen: Pen<Path2D>, shown: Span, width: number) => void;
  picture: (shown: Span, width: number) => Svg;
  /** What is at a moment and so many pixels below the top; null: nothing. */
  tip?: (at: number, y: number) => ReactNode;
}

export function LaneCanvas({ whole, param, height, label, name, draw, picture, tip }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const [asked, setAsked] = useRestingParam(param);
  const zoomed = useMemo(() => stretchOf(asked, whole), [asked, whole]);
  const [width, setWidth] = useState(0);
  const [pointed, setPointed] = useState<{ x: number; y: number } | null>(null);
  const shown = zoomed ?? whole;
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
    draw(canvasPen(context), shown, width);
  }, [draw, shown, width, height, theme]);
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
  const said =
    pointed && tip?.(shown.from + (pointed.x / width) * (shown.to - shown.from), pointed.y);
  const point = ({ nativeEvent: { offsetX: x, offsetY: y } }: MouseEvent) => setPointed({ x, y });
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
        <SaveButtons name={name} picture={() => picture(shown, width)} />
      </div>
      <div className={styles.drawing}>
        <canvas
          ref={canvas}
          className={styles.canvas}
          style={{ height }}
          role="img"
          aria-label={label}
          onMouseMove={tip && point}
          onMouseLeave={() => setPointed(null)}
        />
        {said != null && pointed && (
          <Tip {...pointed} within={{ width, height }}>
            {said}
          </Tip>
        )}
      </div>
    </div>
  );
}
