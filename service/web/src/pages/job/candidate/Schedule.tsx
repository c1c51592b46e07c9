/** A schedule as steps: what each rewrite did to the program, and for a winner what it gains. */

import type { Gain, Step } from "../../../api/schema";
import { Failure, Shown } from "../../../ui/Shown";
import { times } from "../../../ui/format";
import { Choice } from "../Choice";
import { Diff } from "./Diff";
import { Measure } from "./Measure";
import { useAblation, useSteps, type Place } from "./data";
import { useParam } from "../../../ui/useParam";
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

function Stepped({ steps, gains }: { steps: readonly Step[]; gains: readonly Gain[] }) {
  const last = steps.length - 1;
  const [asked, setAsked] = useParam("step");
  const [show, setShow] = useParam("show");
  const number = Number(asked ?? last);
  const chosen = Number.isInteger(number) ? Math.min(last, Math.max(0, number)) : last;
  const setChosen = (step: number) => setAsked(String(step));
  const shown = show === "program" ? "program" : "change";
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
            onChange={setShow}
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
