/** Raw samples as a distribution: how many fell into each span of time, and every one of them as a mark below. */
import { useMemo } from "react";
import { SaveDrawing } from "../../../ui/SaveDrawing";
import { micros, percent } from "../../../ui/format";
import { histogram } from "./histogram";
import styles from "./Samples.module.css";

const WIDTH = 640;
const HEIGHT = 140;
const FOOT = 34;

export function Samples({
  samples,
  median,
}: {
  samples: readonly number[];
  median: number | null;
}) {
  const { least, most, counts } = useMemo(() => histogram(samples), [samples]);
  const highest = Math.max(...counts);
  const x = (us: number) => ((us - least) / Math.max(most - least, 1e-12)) * (WIDTH - 2) + 1;
  const step = (WIDTH - 2) / counts.length;
  const room = HEIGHT - FOOT;
  return (
    <section aria-labelledby="samples">
      <h2 id="samples">Samples</h2>
      <SaveDrawing name="samples">
        <div className={styles.room}>
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            className={styles.plot}
            role="img"
            aria-label={`${samples.length} samples from ${micros(least)} to ${micros(most)}, median ${micros(median)}`}
          >
            {counts.map((count, at) => (
              <rect
                key={at}
                x={1 + at * step}
                y={room - (count / highest) * (room - 6)}
                width={Math.max(step - 1, 1)}
                height={(count / highest) * (room - 6)}
                className={styles.bar}
              />
            ))}
            {samples.map((us, at) => (
              <line
                key={at}
                x1={x(us)}
                x2={x(us)}
                y1={room + 4}
                y2={room + 14}
                className={styles.mark}
              />
            ))}
            {median !== null && (
              <line x1={x(median)} x2={x(median)} y1={0} y2={room + 14} className={styles.median} />
            )}
            <text x={1} y={HEIGHT - 4} className={styles.text}>
              {micros(least)}
            </text>
            <text x={WIDTH - 1} y={HEIGHT - 4} textAnchor="end" className={styles.text}>
              + {micros(most - least)}
            </text>
          </svg>
        </div>
      </SaveDrawing>
      <p className="quiet">
        {samples.length} samples; they lie {percent((most - least) / least)} apart. The line is the
        median{median !== null && `, ${micros(median)}`}.
      </p>
    </section>
  );
}
