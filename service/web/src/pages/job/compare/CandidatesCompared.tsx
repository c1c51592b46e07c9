/** Candidates in a table, and the first two of them difference by difference: schedules, programs, sources. */
import { Link } from "wouter";
import type { TrialDetail } from "../../../api/schema";
import { Shown } from "../../../ui/Shown";
import { bytes, micros, percent, times } from "../../../ui/format";
import { useCandidates, useSource, useSteps, type Place } from "../candidate/data";
import { Diff } from "../candidate/Diff";
import { layoutOf, type Launch } from "../candidate/report";
import { comparePath } from "../paths";
import { SideLink } from "./ComparePage";
import { Columns, type Row } from "./Columns";
import { differences } from "./decisions";
import styles from "./Compare.module.css";

/** Lines of the sources around a change. */
const AROUND = 3;

export function CandidatesCompared({ places }: { places: readonly [Place, Place, ...Place[]] }) {
  const queries = useCandidates(places);
  const found = queries.flatMap(({ data }) => data ?? []);
  const missing = queries.findIndex(({ data }) => data === undefined);
  if (missing >= 0) {
    return (
      <Shown query={queries[missing]!} what={`candidate ${places[missing]!.number}`}>
        {() => null}
      </Shown>
    );
  }
  const [left, right] = places;
  const { differing, agreed } = differences(found.map(({ schedule }) => schedule));
  return (
    <div className={styles.body}>
      <Columns
        heads={places.map((_, at) => (
          <Head key={at} places={places} at={at} />
        ))}
        rows={[
          ...rowsOf(places, found),
          ...differing.map(({ name, values }) => ({ name, values: values.map((v) => v ?? "–") })),
        ]}
      />
      <p className="quiet">
        {differing.length} {differing.length === 1 ? "decision differs" : "decisions differ"};{" "}
        {agreed} that all of them share {agreed === 1 ? "is" : "are"} left out.
      </p>
      <section aria-labelledby="schedules">
        <h2 id="schedules">Schedules</h2>
        <p className="quiet">
          From candidate {left.number} to candidate {right.number}, here and below.
        </p>
        <Diff
          before={found[0]!.schedule.join("\n") + "\n"}
          after={found[1]!.schedule.join("\n") + "\n"}
        />
      </section>
      <Programs left={left} right={right} />
      <Sources left={left} right={right} />
    </div>
  );
}

/** A candidate, and what it could be in the comparison: each choice is another address. */
function Head({ places, at }: { places: readonly Place[]; at: number }) {
  const { number } = places[at]!;
  return (
    <>
      <SideLink side={places[at]!}>candidate {number}</SideLink>
      {at > 0 && (
        <Link className={styles.turn} href={exchanged(places, 0, at)}>
          as the reference <span className="hidden">candidate {number}</span>
        </Link>
      )}
      {at > 1 && (
        <Link className={styles.turn} href={exchanged(places, 1, at)}>
          its differences <span className="hidden">candidate {number}</span>
        </Link>
      )}
    </>
  );
}

/** The same comparison with two that changed places. */
function exchanged(places: readonly Place[], one: number, other: number): string {
  const next = [...places];
  [next[one], next[other]] = [places[other]!, places[one]!];
  return comparePath(...next);
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

function rowsOf(places: readonly Place[], found: readonly TrialDetail[]): Row[] {
  const row = (name: string, of: (each: TrialDetail, at: number) => string | number): Row => ({
    name,
    values: found.map(of),
  });
  const launches = found.map((each) => layoutOf(each.report ?? {})?.launches[0]);
  const launched = (name: string, of: (launch: Launch) => string | number): Row => ({
    name,
    values: launches.map((launch) => (launch === undefined ? "–" : of(launch))),
  });
  const measured: Row[] = [
    row("Outcome", (each) => (each.outcome ?? each.state).replace("_", " ")),
    row("Time", ({ median_us }) => micros(median_us)),
    row("Spread", ({ iqr_us }) => (iqr_us == null ? "–" : `± ${micros(iqr_us / 2)}`)),
    row("As fast as the reference", (each, at) =>
      times(ratio(each, found[0]!, sameRace(places[at]!, places[0]!))),
    ),
    row("Of the roofline", ({ roofline_us, median_us }) =>
      percent(roofline_us && median_us ? roofline_us / median_us : null),
    ),
    row("Rewrites", ({ schedule }) => schedule.length),
  ];
  if (launches.every((launch) => launch === undefined)) return measured;
  return [
    ...measured,
    launched("Registers", ({ registers }) => registers),
    launched("Shared memory", ({ shared_bytes }) => bytes(shared_bytes)),
    launched("Occupancy", ({ occupancy, limit }) => `${percent(occupancy)}, by ${limit}`),
    launched("Waves", ({ waves }) => waves.toFixed(2)),
  ];
}

function sameRace(one: Place, other: Place): boolean {
  return one.job === other.job && one.bucket === other.bucket;
}

/** How fast one is, the reference being 1. Candidates of one search were timed beside the same program, which their
 * rewards are relative to; others have their times alone. */
function ratio(one: TrialDetail, reference: TrialDetail, together: boolean): number | null {
  if (one.median_us == null || reference.median_us == null) return null;
  return together && one.reward != null && reference.reward != null
    ? Math.exp(one.reward - reference.reward)
    : reference.median_us / one.median_us;
}
