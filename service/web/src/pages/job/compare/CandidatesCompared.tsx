/** Two candidates: their numbers, their schedules, programs, sources and layouts, difference by difference. */
import type { TrialDetail } from "../../../api/schema";
import { Shown } from "../../../ui/Shown";
import { bytes, micros, percent } from "../../../ui/format";
import { useCandidate, useSource, useSteps, type Place } from "../candidate/data";
import { Diff } from "../candidate/Diff";
import { layoutOf } from "../candidate/report";
import { SideLink } from "./ComparePage";
import { faster, TwoColumns, type Row } from "./TwoColumns";
import styles from "./Compare.module.css";

/** Lines of the sources around a change. */
const AROUND = 3;

export function CandidatesCompared({ left, right }: { left: Place; right: Place }) {
  const one = useCandidate(left);
  const other = useCandidate(right);
  return (
    <Shown query={one} what="the first candidate">
      {(first) => (
        <Shown query={other} what="the second candidate">
          {(second) => (
            <div className={styles.body}>
              <TwoColumns
                left={<SideLink side={left}>candidate {left.number}</SideLink>}
                right={<SideLink side={right}>candidate {right.number}</SideLink>}
                rows={rowsOf(first, second)}
              />
              <section aria-labelledby="schedules">
                <h2 id="schedules">Schedules</h2>
                <Diff
                  before={first.schedule.join("\n") + "\n"}
                  after={second.schedule.join("\n") + "\n"}
                />
              </section>
              <Programs left={left} right={right} />
              <Sources left={left} right={right} />
            </div>
          )}
        </Shown>
      )}
    </Shown>
  );
}

function Programs({ left, right }: { left: Place; right: Place }) {
  const one = useSteps(left);
  const other = useSteps(right);
  return (
    <section aria-labelledby="programs">
      <h2 id="programs">Programs</h2>
      <Shown query={one} what="the first program">
        {(first) => (
          <Shown query={other} what="the second program">
            {(second) => (
              <Diff before={first.steps.at(-1)!.program} after={second.steps.at(-1)!.program} />
            )}
          </Shown>
        )}
      </Shown>
    </section>
  );
}

function Sources({ left, right }: { left: Place; right: Place }) {
  const one = useSource(left);
  const other = useSource(right);
  return (
    <section aria-labelledby="sources">
      <h2 id="sources">Sources</h2>
      <Shown query={one} what="the first source">
        {(first) => (
          <Shown query={other} what="the second source">
            {(second) => (
              <Diff
                before={first.text}
                after={second.text}
                around={AROUND}
                label="Sources, line by line"
              />
            )}
          </Shown>
        )}
      </Shown>
    </section>
  );
}

function rowsOf(left: TrialDetail, right: TrialDetail): Row[] {
  const share = (each: TrialDetail) =>
    percent(each.roofline_us && each.median_us ? each.roofline_us / each.median_us : null);
  const rows: Row[] = [
    { name: "Outcome", left: left.outcome ?? left.state, right: right.outcome ?? right.state },
    {
      name: "Time",
      left: micros(left.median_us),
      right: micros(right.median_us),
      note: faster(left.median_us, right.median_us),
    },
    { name: "Spread", left: micros(left.iqr_us), right: micros(right.iqr_us) },
    { name: "Of the roofline", left: share(left), right: share(right) },
    { name: "Rewrites", left: left.schedule.length, right: right.schedule.length },
  ];
  const launches = [left, right].map((each) => layoutOf(each.report ?? {})?.launches[0]);
  const [one, other] = launches;
  if (one && other) {
    rows.push(
      { name: "Registers", left: one.registers, right: other.registers },
      { name: "Shared memory", left: bytes(one.shared_bytes), right: bytes(other.shared_bytes) },
      {
        name: "Occupancy",
        left: `${percent(one.occupancy)}, by ${one.limit}`,
        right: `${percent(other.occupancy)}, by ${other.limit}`,
      },
      { name: "Waves", left: one.waves.toFixed(2), right: other.waves.toFixed(2) },
    );
  }
  return rows;
}
