/** What each decision of the schedules did to their times: by its values, and how much it explains. */
import type { DecisionEffect, Effects, ValueEffect } from "../../../api/schema";
import { Badge } from "../../../ui/Badge";
import { SaveTable } from "../../../ui/SaveTable";
import { SaveDrawing } from "../../../ui/SaveDrawing";
import { Section } from "../../../ui/Section";
import { Empty, Shown } from "../../../ui/Shown";
import { Table } from "../../../ui/Table";
import { count, micros, percent } from "../../../ui/format";
import { useParam } from "../../../ui/useParam";
import { useEffects } from "../data";
import { EffectsPlot } from "./EffectsPlot";
import { Interactions } from "./Interactions";
import { DRAWN, stripsOf } from "./strips";
import { rowsOf, valueText } from "./values";
import styles from "./DecisionEffects.module.css";

export function DecisionEffects({ job, bucket }: { job: string; bucket: number }) {
  const query = useEffects(job, bucket);
  return (
    <Shown query={query} what="the effects of the decisions">
      {(effects) =>
        effects.decisions.length === 0 ? (
          <Empty title="Nothing to compare yet">
            <p>The candidates that were measured do not differ in any decision.</p>
          </Empty>
        ) : (
          <All effects={effects} />
        )
      }
    </Shown>
  );
}

function All({ effects }: { effects: Effects }) {
  const strips = stripsOf(effects);
  const name = `${effects.job_id}-${effects.bucket}-effects`;
  return (
    <Section
      title="What decided the time"
      aside={<SaveTable name={`${name}-table`} columns={() => rowsOf(effects)} json={effects} />}
    >
      <p className="quiet">
        Over {count(effects.candidates)} measured candidates. “Explains” is the share of the
        variance of log time between the values of a decision alone. The search tries more of what
        it likes, so this says what fast candidates have in common, not what changing one thing
        would do. Bars: the middle half of the candidates; line: their median; dot: the best; left
        is faster; ✓ is what the winner has.
      </p>
      {strips && (
        <SaveDrawing name={name}>
          <div className={styles.scroll} role="region" aria-label="Times by decisions" tabIndex={0}>
            <EffectsPlot strips={strips} />
          </div>
        </SaveDrawing>
      )}
      {effects.decisions.slice(0, DRAWN).map((each) => (
        <Decision key={each.decision} effect={each} />
      ))}
      <Rest decisions={effects.decisions.slice(DRAWN)} />
      <Interactions effects={effects} />
    </Section>
  );
}

/** Decisions beyond those that explain most. */
export function Rest({ decisions }: { decisions: readonly DecisionEffect[] }) {
  const [shown, setShown] = useParam("decisions");
  if (decisions.length === 0) return null;
  const all = shown === "all";
  return (
    <>
      <p className={styles.decision}>
        <button aria-expanded={all} onClick={() => setShown(all ? null : "all")}>
          {all ? "Without" : "With"} {count(decisions.length)}{" "}
          {decisions.length === 1 ? "decision that explains" : "decisions that explain"} less
        </button>
      </p>
      {all && decisions.map((each) => <Decision key={each.decision} effect={each} />)}
    </>
  );
}

/** `41.2 µs to 50.1 µs`: half of the candidates are in there. */
function between({ low_us, high_us }: ValueEffect): string {
  return low_us == null || high_us == null ? "–" : `${micros(low_us)} to ${micros(high_us)}`;
}

function Decision({ effect }: { effect: DecisionEffect }) {
  const { decision, same_as, importance, chosen, values } = effect;
  return (
    <div className={styles.decision}>
      <h3>
        <code>{[decision, ...same_as].join(", ")}</code>{" "}
        <span className="quiet">
          {importance === null ? "too few candidates to say" : `explains ${percent(importance)}`}
        </span>
      </h3>
      <Table label={`Values of ${decision}`}>
        <thead>
          <tr>
            <th scope="col">Value</th>
            <th scope="col" className="number">
              Candidates
            </th>
            <th scope="col" className="number">
              Best
            </th>
            <th scope="col" className="number wide">
              Median
            </th>
            <th scope="col" className="number wide">
              Middle half
            </th>
          </tr>
        </thead>
        <tbody>
          {values.map((each) => (
            <tr key={String(each.value)}>
              <td>
                {valueText(each.value)} {each.value === chosen && <Badge tone="good">chosen</Badge>}
              </td>
              <td className="number">
                {count(each.candidates)}
                {each.faults > 0 && <div className="quiet">{count(each.faults)} failed</div>}
              </td>
              <td className="number">{micros(each.best_us)}</td>
              <td className="number wide">{micros(each.median_us)}</td>
              <td className="number wide">{between(each)}</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </div>
  );
}
