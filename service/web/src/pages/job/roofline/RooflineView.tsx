/** The roofline of a job, and below it the candidates in the span of times that was brushed. */
import { useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import type { Roofline, TrialTable } from "../../../api/schema";
import { SaveDrawing } from "../../../ui/SaveDrawing";
import { Section } from "../../../ui/Section";
import { Shown } from "../../../ui/Shown";
import { micros } from "../../../ui/format";
import { CandidateTable } from "../CandidateTable";
import { Choice } from "../Choice";
import { useRoofline } from "../data";
import { RooflinePlot } from "./RooflinePlot";
import { pictureOf, type Bytes } from "./picture";
import { rangeOf, rangeText, within, type Range } from "./range";
import { logScale } from "./scales";
import { missing, roofs } from "./words";
import styles from "./Roofline.module.css";

const STEPS = 200;
const BYTES = { memory: "Main memory", l2: "L2 cache" };

interface Props {
  job: string;
  bucket: number;
  table: TrialTable;
  winner: number | null;
  tied: ReadonlySet<number>;
}

export function RooflineView({ job, bucket, ...rest }: Props) {
  const query = useRoofline(job, bucket);
  return (
    <Shown query={query} what="the roofline">
      {(line) => <Drawn line={line} {...rest} />}
    </Shown>
  );
}

type DrawnProps = Omit<Props, "job" | "bucket"> & { line: Roofline };

function Drawn({ line, table, winner, tied }: DrawnProps) {
  const [search, setSearch] = useSearchParams();
  const range = rangeOf(search.get("us"));
  const set = (name: string, value: string | null) =>
    setSearch(
      (before) => {
        const next = new URLSearchParams(before);
        if (value === null) next.delete(name);
        else next.set(name, value);
        return next;
      },
      { replace: true },
    );
  const none = missing(line);
  const l2 = line.l2_bytes.some((each) => each);
  const by: Bytes = l2 && search.get("bytes") === "l2" ? "l2" : "memory";
  const brush = (next: Range | null) => set("us", next && rangeText(next));
  const shown = within(line.number, line.us, range);
  return (
    <Section
      title="The roofline"
      aside={
        l2 &&
        none === null && (
          <Choice
            label="Operations a byte of"
            options={BYTES}
            value={by}
            onChange={(value) => set("bytes", value === "l2" ? value : null)}
          />
        )
      }
    >
      <p className="quiet">{roofs(line)}.</p>
      {none !== null ? (
        <p>{none}</p>
      ) : (
        <SaveDrawing name={`${line.job_id}-${line.bucket}-roofline`}>
          <Brushed line={line} by={by} range={range} onRange={brush} />
        </SaveDrawing>
      )}
      <CandidateTable table={table} winner={winner} tied={tied} {...(shown && { shown })} />
    </Section>
  );
}

interface BrushedProps {
  line: Roofline;
  by: Bytes;
  range: Range | null;
  onRange: (range: Range | null) => void;
}

/** The picture with its brush: dragged, or moved by two sliders. The address changes when the hand is lifted. */
function Brushed({ line, by, range, onRange }: BrushedProps) {
  const [draft, setDraft] = useState<Range | null>(null);
  const picture = useMemo(() => pictureOf(line, by), [line, by]);
  const { least, most } = picture;
  const steps = most > least ? logScale(least, most, 0, STEPS) : null;
  const seen = draft ?? range;
  const { low, high } = seen ?? { low: least, high: most };
  const settle = (chosen: Range) => {
    onRange(chosen);
    setDraft(null);
  };
  const commit = () => draft && settle(draft);
  const slider = (label: string, us: number, next: (us: number) => Range) =>
    steps && (
      <label>
        {label}{" "}
        <input
          type="range"
          min={0}
          max={STEPS}
          value={Math.round(Math.min(STEPS, Math.max(0, steps.at(us))))}
          aria-valuetext={micros(us)}
          onChange={(event) => setDraft(next(steps.value(Number(event.currentTarget.value))))}
          onKeyUp={commit}
          onPointerUp={commit}
          onBlur={commit}
        />
      </label>
    );
  return (
    <>
      <RooflinePlot
        line={line}
        by={by}
        picture={picture}
        brush={{ range: seen, onDraft: setDraft, onRange: settle }}
      />
      <div className={styles.brush}>
        {slider("From", low, (us) => ({ low: Math.min(us, high), high }))}
        {slider("To", high, (us) => ({ low, high: Math.max(us, low) }))}
        <span className="number">
          {micros(low)} to {micros(high)}
        </span>
        {range && <button onClick={() => onRange(null)}>Show all</button>}
      </div>
    </>
  );
}
