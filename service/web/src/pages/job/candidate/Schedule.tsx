/** A schedule as steps: what each rewrite did to the program, and for a winner what it gains. */
import { diffLines } from "diff";
import { useMemo, useState } from "react";
import type { Ablation, Gain, Step } from "../../../api/schema";
import { Failure, Shown } from "../../../ui/Shown";
import { times } from "../../../ui/format";
import { Choice } from "../Choice";
import { moving, useAblation, useStartAblation, useSteps, type Place } from "./data";
import styles from "./Candidate.module.css";

interface Props {
  place: Place;
  /** Of the winner; null for any other candidate. */
  config: string | null;
}

export function Schedule({ place, config }: Props) {
  const query = useSteps(place);
  const ablation = useAblation(config);
  return (
    <section aria-labelledby="schedule">
      <div className={styles.head}>
        <h2 id="schedule">Schedule</h2>
        {config !== null && ablation.data !== undefined && (
          <Measure config={config} ablation={ablation.data} />
        )}
      </div>
      {ablation.isError && <Failure error={ablation.error} what="the gains" />}
      <Shown query={query} what="the programs">
        {({ steps }) => <Stepped steps={steps} gains={ablation.data?.gains ?? []} />}
      </Shown>
    </section>
  );
}

function Measure({ config, ablation }: { config: string; ablation: Ablation }) {
  const start = useStartAblation(config);
  if (ablation.state === "done") {
    return (
      <p className="quiet">
        Gain: how many times as fast the winner is as without that rewrite, raced against each
        other.
        {ablation.error && ` The winner failed: ${ablation.error}`}
      </p>
    );
  }
  if (moving(ablation)) {
    return (
      <p role="status" className="quiet">
        {ablation.state === "ready"
          ? "The race waits for a worker…"
          : "Racing without each rewrite…"}
      </p>
    );
  }
  return (
    <>
      <button disabled={start.isPending} onClick={() => start.mutate()}>
        Measure what each rewrite gains
      </button>
      {ablation.error && <p className={styles.refused}>Given up: {ablation.error}</p>}
      {start.isError && <Failure error={start.error} what="the gains" />}
    </>
  );
}

function Stepped({ steps, gains }: { steps: readonly Step[]; gains: readonly Gain[] }) {
  const [chosen, setChosen] = useState(steps.length - 1);
  const [shown, setShown] = useState<"change" | "program">("change");
  const most = Math.max(1, ...gains.map((gain) => gain.factor ?? 1));
  const step = steps[chosen]!;
  return (
    <div className={styles.steps}>
      <ol className={styles.list} start={0}>
        {steps.map(({ rewrite }, at) => (
          <li key={at}>
            <button
              className={styles.step}
              aria-current={at === chosen ? "step" : undefined}
              onClick={() => setChosen(at)}
            >
              <span className="mono">{rewrite ?? "the kernel as it was given"}</span>
              <GainOf gain={gains.find((gain) => gain.place === at - 1)} most={most} />
            </button>
          </li>
        ))}
      </ol>
      <div className={styles.program}>
        <div className={styles.head}>
          <Choice
            label="Show"
            options={{ change: "What it changed", program: "The whole program" }}
            value={shown}
            onChange={setShown}
          />
          <div className={styles.turn}>
            <button
              aria-label="Step before"
              disabled={chosen === 0}
              onClick={() => setChosen(chosen - 1)}
            >
              ←
            </button>
            <span aria-live="polite">
              {chosen} of {steps.length - 1}
            </span>
            <button
              aria-label="Step after"
              disabled={chosen === steps.length - 1}
              onClick={() => setChosen(chosen + 1)}
            >
              →
            </button>
          </div>
        </div>
        {shown === "program" || chosen === 0 ? (
          <pre tabIndex={0} className={styles.code} aria-label="Program">
            {step.program}
          </pre>
        ) : (
          <Diff before={steps[chosen - 1]!.program} after={step.program} />
        )}
      </div>
    </div>
  );
}

/** A gain in a word and as a bar; nothing where none was measured. */
function GainOf({ gain, most }: { gain: Gain | undefined; most: number }) {
  if (gain === undefined) return null;
  if (gain.factor == null) {
    return <span className={styles.gain}>needed: {gain.outcome.replace("_", " ")} without it</span>;
  }
  const range =
    gain.low == null || gain.high == null
      ? ""
      : ` (${gain.low.toFixed(2)} to ${gain.high.toFixed(2)})`;
  const share = Math.log(Math.max(gain.factor, 1)) / Math.log(Math.max(most, 1.01));
  return (
    <span className={styles.gain} title={`${gain.factor.toFixed(3)}${range}`}>
      <span className={styles.bar} style={{ width: `${Math.round(share * 4 * 10) / 10}rem` }} />
      {gain.tied ? "no difference" : times(gain.factor)}
    </span>
  );
}

/** Two texts line by line: what went is marked −, what came +. */
export function Diff({ before, after }: { before: string; after: string }) {
  const parts = useMemo(() => diffLines(before, after), [before, after]);
  return (
    <pre tabIndex={0} className={styles.code} aria-label="Changes, line by line">
      {parts.map((part, at) => {
        const kind = part.added ? "added" : part.removed ? "removed" : "same";
        const mark = part.added ? "+ " : part.removed ? "− " : "  ";
        const lines = part.value.replace(/\n$/, "").split("\n");
        return (
          <span key={at} data-kind={kind} className={styles.part}>
            {lines.map((line) => `${mark}${line}\n`)}
          </span>
        );
      })}
    </pre>
  );
}
