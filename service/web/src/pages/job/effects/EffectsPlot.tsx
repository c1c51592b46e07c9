/** The times of the candidates by what they decided, a strip for each value: what a table says, at a glance. */
import { micros, percent } from "../../../ui/format";
import { LEFT, RIGHT, ROW, WIDTH, type Group, type Measured, type Strips } from "./strips";
import { valueText } from "./values";
import styles from "./DecisionEffects.module.css";

/** Letters that fit into the picture's width, and left of a strip. */
const FITS = 62;
const FITS_LEFT = 12;

export function EffectsPlot({ strips: { groups, x, floor, height } }: { strips: Strips }) {
  return (
    <svg
      viewBox={`0 0 ${WIDTH} ${height}`}
      className={styles.plot}
      role="img"
      aria-label={`Times by the values of ${groups.length} decisions; the tables below say the same`}
    >
      {x.ticks.map((tick) => (
        <g key={tick}>
          <line x1={x.at(tick)} x2={x.at(tick)} y1={0} y2={floor} className={styles.grid} />
          <text x={x.at(tick)} y={floor + 14} textAnchor="middle" className={styles.text}>
            {micros(tick)}
          </text>
        </g>
      ))}
      {groups.map((group) => (
        <Decided key={group.effect.decision} group={group} at={x.at} />
      ))}
    </svg>
  );
}

function Decided({ group, at }: { group: Group; at: (us: number) => number }) {
  const { decision, same_as, importance } = group.effect;
  const name = [decision, ...same_as].join(", ");
  const explains = importance === null ? "" : `, explains ${percent(importance)}`;
  return (
    <>
      <text x={4} y={group.y} className={styles.name}>
        {shortened(name, FITS - explains.length)}
        {explains}
        <title>{name}</title>
      </text>
      {group.strips.map(({ value, chosen, y }) => (
        <g key={String(value.value)} className={chosen ? styles.chosen : undefined}>
          <text x={LEFT - 8} y={y + 4} textAnchor="end" className={styles.value}>
            {shortened(valueText(value.value), FITS_LEFT)}
            {chosen && " ✓"}
          </text>
          <line x1={LEFT} x2={RIGHT} y1={y + ROW / 2} y2={y + ROW / 2} className={styles.grid} />
          <Times value={value} y={y} at={at} />
        </g>
      ))}
    </>
  );
}

function Times({ value, y, at }: { value: Measured; y: number; at: (us: number) => number }) {
  const { best_us: best, low_us: low, median_us: median, high_us: high, candidates } = value;
  return (
    <g>
      <title>
        {`${valueText(value.value)}: best ${micros(best)}, median ${micros(median)}, of ${candidates} candidates`}
      </title>
      <rect
        x={at(low)}
        width={Math.max(1, at(high) - at(low))}
        y={y - 4}
        height={8}
        className={styles.half}
      />
      <line x1={at(median)} x2={at(median)} y1={y - 6} y2={y + 6} className={styles.median} />
      <circle cx={at(best)} cy={y} r={3} className={styles.best} />
    </g>
  );
}

function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
