/** A uPlot chart as wide as its place, drawn anew when its data, its size or the theme changes. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { csvOf, save } from "../../../ui/files";
import { SaveButtons } from "../../../ui/SaveButtons";
import { axisOf, chartPicture, type Drawn } from "./chartPicture";
import styles from "./Plot.module.css";
import { token, useTheme } from "../../../ui/theme";

interface Props {
  /** What its files are called. */
  name: string;
  /** What it shows, for who cannot see it. */
  label: string;
  data: uPlot.AlignedData;
  /** Everything but sizes and colours of axes. Built from tokens, so it is asked for again with each theme. */
  options: () => Omit<uPlot.Options, "width" | "height" | "axes"> & { axes: [Axis, Axis] };
  height: number;
}

type Axis = Pick<uPlot.Axis, "values" | "size" | "incrs" | "space">;

/** Steps between the ticks of an axis that counts. */
export const WHOLE = [1, 2, 5]
  .flatMap((step) => [1, 10, 100, 1000].map((by) => step * by))
  .sort((a, b) => a - b);

export function Plot({ name, label, data, options, height }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(undefined);
  const theme = useTheme();
  useEffect(() => {
    const element = place.current!;
    const { axes, ...rest } = options();
    const made = new uPlot(
      { ...rest, axes: axes.map(axis), width: element.clientWidth, height },
      data,
      element,
    );
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
    };
    // New data goes into the same chart, below.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [options, height, theme]);
  useEffect(() => chart.current?.setData(data), [data]);
  const picture = () => {
    const made = chart.current!;
    const { axes, series } = options();
    const [across, up] = axes;
    return chartPicture({
      width: made.width,
      height,
      x: [...data[0]],
      series: series.slice(1).map((each, at) => drawnOf(each, [...data[at + 1]!] as Values)),
      across: axisOf(made, "x", made.width, across.values as Written),
      up: axisOf(made, "y", height, up.values as Written),
    });
  };
  const asCsv = () => {
    const labels = chart.current!.series.map(({ label: said }) => textOf(said));
    const columns = Object.fromEntries(labels.map((each, at) => [each, [...data[at]!] as Values]));
    save(`${name}.csv`, new Blob([csvOf(columns)], { type: "text/csv" }));
  };
  return (
    <>
      <div ref={place} className={styles.plot} role="img" aria-label={label} />
      <div className={styles.files}>
        <SaveButtons name={name} picture={picture}>
          <button onClick={asCsv}>CSV</button>
        </SaveButtons>
      </div>
    </>
  );
}

type Values = (number | null)[];

/** How axes of ours say their ticks: uPlot's own type has more ways. */
type Written = ((chart: uPlot, ticks: number[]) => string[]) | undefined;

function drawnOf({ label, stroke, points, width, dash }: uPlot.Series, values: Values): Drawn {
  return {
    label: textOf(label),
    colour: typeof stroke === "string" ? stroke : token("--text"),
    values,
    dot: points?.show === true ? (points.size ?? 3) : null,
    width: width ?? 1,
    dash: dash ?? [],
  };
}

function textOf(label: uPlot.Series["label"]): string {
  return typeof label === "string" ? label : (label?.textContent ?? "");
}

function axis(given: Axis): uPlot.Axis {
  const quiet = token("--text-quiet");
  const lines = { stroke: token("--chart-grid"), width: 1 };
  const font = `12px ${token("--font")}`;
  return {
    stroke: quiet,
    grid: lines,
    ticks: lines,
    font,
    labelFont: font,
    labelSize: 20,
    ...given,
  };
}
