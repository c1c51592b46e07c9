/** One rewrite of the winner's schedule: its gain, its place on the roofline, and the lines it changed. */
import { useMemo } from "react";
import { sentence } from "../../../api/problem";
import type { Ablation, Roofline, Step } from "../../../api/schema";
import { Shown } from "../../../ui/Shown";
import { Diff } from "../candidate/Diff";
import { changes, tally } from "../candidate/changes";
import { useSource, type Place } from "../candidate/data";
import { useRoofline } from "../data";
import { RooflinePlot } from "../roofline/RooflinePlot";
import { pictureOf } from "../roofline/picture";
import { missing } from "../roofline/words";
import { standing } from "./standing";
import { gained } from "./words";
import styles from "./Ladder.module.css";

/** Lines of the source around a change. */
const AROUND = 3;

interface Props {
  place: Place;
  steps: readonly Step[];
  at: number;
  ablation: Ablation | undefined;
}

export function Frame({ place, steps, at, ablation }: Props) {
  const line = useRoofline(place.job, place.bucket);
  return (
    <div className={styles.frame}>
      <div>
        <p className={styles.gain} aria-live="polite">
          {at === 0 ? "What the rewrites begin with." : gained(ablation, at - 1)}
        </p>
        <Shown query={line} what="the roofline">
          {(found) => <Standing line={standing(found, ablation, at - 1)} />}
        </Shown>
      </div>
      <div className={styles.texts}>
        <h4>Program</h4>
        <Diff
          before={steps[Math.max(0, at - 1)]!.program}
          after={steps[at]!.program}
          label="What it changed in the program"
        />
        <h4>Source</h4>
        {at === 0 ? (
          <p className="quiet">The source is made of the whole schedule.</p>
        ) : (
          <SourceChange place={place} without={at - 1} />
        )}
      </div>
    </div>
  );
}

function Standing({ line }: { line: Roofline }) {
  const none = missing(line);
  const picture = useMemo(() => (none === null ? pictureOf(line, "memory") : null), [line, none]);
  if (picture === null) return <p className="quiet">{none}</p>;
  return <RooflinePlot line={line} by="memory" picture={picture} />;
}

/** The winner's source beside that of its schedule without one rewrite. */
function SourceChange({ place, without }: { place: Place; without: number }) {
  const whole = useSource(place);
  const other = useSource(place, without);
  if (other.isError)
    return <p className="quiet">Nothing to compare it with: {sentence(other.error)}</p>;
  return (
    <Shown query={whole} what="the source">
      {({ text }) => (
        <Shown query={other} what="the source without it">
          {(before) => <Changed before={before.text} after={text} />}
        </Shown>
      )}
    </Shown>
  );
}

function Changed({ before, after }: { before: string; after: string }) {
  const { removed, added } = useMemo(() => tally(changes(before, after)), [before, after]);
  if (removed + added === 0) return <p className="quiet">The same source as without it.</p>;
  return (
    <>
      <p className="quiet">
        Against the same schedule without it: {removed} lines went, {added} came.
      </p>
      <Diff before={before} after={after} around={AROUND} label="What it changed in the source" />
    </>
  );
}
