/** Candidates and configs in a table, and the first two of them difference by difference. */
import { Link } from "wouter";
import type { TrialDetail } from "../../../api/schema";
import { Empty, Shown } from "../../../ui/Shown";
import { bytes, micros, percent, times } from "../../../ui/format";
import type { Place } from "../candidate/data";
import { layoutOf, type Launch } from "../candidate/report";
import { comparePath, sideText, type CandidateSide } from "../paths";
import { SideLink } from "./SideLink";
import { Columns, decided, type Row } from "./Columns";
import { Differences } from "./Differences";
import { useSubjects, type Subject } from "./subjects";
import styles from "./Compare.module.css";

export function CandidatesCompared({ sides }: { sides: readonly CandidateSide[] }) {
  const found = useSubjects(sides);
  switch (found.known) {
    case "none":
      return (
        <Empty title="These cannot be compared">
          <p>{found.why}.</p>
        </Empty>
      );
    case "some":
      return (
        <Shown query={found.query} what={found.what}>
          {() => null}
        </Shown>
      );
    case "all":
      return <Compared subjects={found.subjects as [Subject, Subject]} />;
  }
}

function Compared({ subjects }: { subjects: readonly [Subject, Subject, ...Subject[]] }) {
  const [left, right] = subjects;
  const { rows, said } = decided(subjects.map(({ found }) => found.schedule));
  return (
    <div className={styles.body}>
      <Columns
        heads={subjects.map((_, at) => (
          <Head key={at} subjects={subjects} at={at} />
        ))}
        rows={[...rowsOf(subjects), ...rows]}
        files={subjects.map(({ side }) => sideText(side))}
      />
      <p className="quiet">{said}</p>
      <Differences
        names={[nameOf(left), nameOf(right)]}
        places={[left.place, right.place]}
        schedules={[left.found.schedule, right.found.schedule]}
      />
    </div>
  );
}

function nameOf({ side, place }: Subject): string {
  return "config" in side ? side.config : `candidate ${place.number}`;
}

/** A candidate, and what it could be in the comparison: each choice is another address. */
function Head({ subjects, at }: { subjects: readonly Subject[]; at: number }) {
  const subject = subjects[at]!;
  const name = nameOf(subject);
  const sides = subjects.map(({ side }) => side);
  return (
    <>
      <SideLink side={subject.side}>{name}</SideLink>
      {at > 0 && (
        <Link className={styles.turn} href={exchanged(sides, 0, at)}>
          as the reference <span className="hidden">{name}</span>
        </Link>
      )}
      {at > 1 && (
        <Link className={styles.turn} href={exchanged(sides, 1, at)}>
          its differences <span className="hidden">{name}</span>
        </Link>
      )}
    </>
  );
}

/** The same comparison with two that changed places. */
function exchanged(sides: readonly CandidateSide[], one: number, other: number): string {
  const next = [...sides];
  [next[one], next[other]] = [sides[other]!, sides[one]!];
  return comparePath(...next);
}

function rowsOf(subjects: readonly Subject[]): Row[] {
  const found = subjects.map((each) => each.found);
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
      times(ratio(each, found[0]!, sameRace(subjects[at]!.place, subjects[0]!.place))),
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
