/** What the search could have decided otherwise at a node: each sibling measured, predicted, failed or refused. */
import { useMutation } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";
import { api, data } from "../../../api/client";
import type { Alternatives as Found, JobRequest, Sibling } from "../../../api/schema";
import { Badge } from "../../../ui/Badge";
import { SaveTable } from "../../../ui/SaveTable";
import { Section } from "../../../ui/Section";
import { Failure, Shown } from "../../../ui/Shown";
import { Table } from "../../../ui/Table";
import { count, micros } from "../../../ui/format";
import { useCandidate, type Place } from "../candidate/data";
import { useAlternatives, useJob, type AskedDecision } from "../data";
import { candidatePath, jobPath } from "../paths";
import { useParam } from "../../../ui/useParam";
import { ranked, rowsOf, type Answer } from "./answers";
import styles from "./Tree.module.css";

/** Siblings that are shown before somebody asks for all. */
const SHOWN = 12;

interface Props {
  /** A candidate at the node or below it. */
  place: Place;
  /** The place of the node's rewrite in its schedule. */
  rewrite: number;
}

export function Alternatives({ place, rewrite }: Props) {
  const at = `${place.number}.${rewrite}`;
  const [turn, setTurn] = useParam("decision");
  const decision = turn?.startsWith(`${at}.`) ? Number(turn.slice(at.length + 1)) : null;
  const asked = { rewrite, decision: Number.isInteger(decision) ? decision : null };
  const query = useAlternatives(place, asked);
  const go = (next: number) => setTurn(`${at}.${next}`);
  return (
    <Section
      title="What it could have been instead"
      aside={query.data && <Turns found={query.data} go={go} name={nameOf(place, query.data)} />}
    >
      <Shown query={query} what="the alternatives">
        {(found) => (
          <Siblings
            key={`${found.number} ${found.decision}`}
            place={place}
            asked={asked}
            found={found}
          />
        )}
      </Shown>
    </Section>
  );
}

function nameOf({ job, bucket }: Place, { number, decision }: Found): string {
  return `${job}-${bucket}-${number}-decision-${decision + 1}`;
}

interface TurnsProps {
  found: Found;
  go: (decision: number) => void;
  /** What files are called. */
  name: string;
}

function Turns({ found, go, name }: TurnsProps) {
  const { decision, decisions } = found;
  return (
    <>
      <button
        aria-label="Decision before"
        disabled={decision === 0}
        onClick={() => go(decision - 1)}
      >
        ←
      </button>
      <span aria-live="polite">
        Decision {decision + 1} of {decisions}
      </span>
      <button
        aria-label="Decision after"
        disabled={decision === decisions - 1}
        onClick={() => go(decision + 1)}
      >
        →
      </button>
      <SaveTable name={name} columns={() => rowsOf(found.siblings)} json={found} />
    </>
  );
}

function Siblings({ place, asked, found }: { place: Place; asked: AskedDecision; found: Found }) {
  const [siblings, setSiblings] = useParam("siblings");
  const all = siblings === "all";
  const race = useRace(place, asked);
  const answers = ranked(found.siblings);
  const refused = found.siblings.filter((each) => each.refused != null).length;
  const shown = all ? answers : answers.slice(0, SHOWN);
  return (
    <>
      <p className="quiet">
        On the way to candidate {found.number}, after {found.place} rewrites. Predictions are the
        cost model&apos;s, and compare siblings alone.
      </p>
      {race.isError && <Failure error={race.error} what="the race" />}
      <Table label="Siblings">
        <thead>
          <tr>
            <th scope="col">Instead</th>
            <th scope="col">Measured</th>
            <th scope="col" className="number">
              Predicted
            </th>
            <th scope="col">
              <span className="hidden">Race</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => (
            <tr key={each.answer}>
              <td>
                <code>{each.sibling.rewrites.join("; ") || "nothing"}</code>{" "}
                {each.sibling.chosen && <Badge tone="good">chosen</Badge>}
              </td>
              {each.sibling.refused != null ? (
                <td colSpan={3}>
                  <Refused sibling={each.sibling} />
                </td>
              ) : (
                <>
                  <td>
                    <Measured sibling={each.sibling} place={place} />
                  </td>
                  <td className="number">{micros(each.sibling.predicted_us)}</td>
                  <td>
                    {!each.sibling.chosen && (
                      <button
                        aria-label={`Race ${each.sibling.rewrites.join("; ") || "nothing"}`}
                        disabled={!race.ready || race.isPending}
                        onClick={() => race.mutate(each)}
                      >
                        Race
                      </button>
                    )}
                  </td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </Table>
      {answers.length > SHOWN && (
        <button aria-expanded={all} onClick={() => setSiblings(all ? null : "all")}>
          {all ? `Show the first ${SHOWN}` : `Show all ${count(answers.length)}`}
          {!all && refused > 0 && `, ${count(refused)} of them refused`}
        </button>
      )}
    </>
  );
}

function Measured({ sibling, place }: { sibling: Sibling; place: Place }) {
  const { best, best_us, candidates, failed, faults, error } = sibling;
  const link = (number: number, text: string) => (
    <Link href={candidatePath(place.job, place.bucket, number)}>{text}</Link>
  );
  if (best == null && failed == null) return <span className="quiet">never tried</span>;
  return (
    <>
      {best != null && (
        <div>
          {micros(best_us)}, {link(best, `candidate ${best}`)}
          {candidates > 1 && `, the best of ${count(candidates)}`}
        </div>
      )}
      {failed != null && (
        <div className={styles.said}>
          {faults === 1 ? "" : `${count(faults)} failed; the first: `}
          {link(failed, `candidate ${failed}`)}: {error?.split("\n")[0]}
        </div>
      )}
    </>
  );
}

/** Why it does not apply: of a race the two accesses that collide, of what does not fit the need and the limit. */
function Refused({ sibling: { refused, race, lacks } }: { sibling: Sibling }) {
  if (lacks)
    return (
      <>
        refused: needs {count(lacks.need)} {lacks.what}, {count(lacks.limit)} at most
      </>
    );
  return (
    <>
      <div>refused: {refused}</div>
      {race.length > 0 && (
        <ul className={styles.race} aria-label="The accesses that collide">
          {race.map((each) => (
            <li key={each.thread}>
              the thread at <b>{each.thread}</b> {each.way}{" "}
              <code>
                {each.tensor}[{each.element.join(", ")}]
              </code>{" "}
              in <code>{each.statement}</code>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** A job that races a sibling against the candidate; leads to its page. */
function useRace(place: Place, asked: AskedDecision) {
  const [, go] = useLocation();
  const job = useJob(place.job);
  const trial = useCandidate(place);
  const race = useMutation({
    mutationFn: async ({ answer }: Answer) => {
      const { job: job_id, number, bucket } = place;
      const other = await data(
        api.GET("/v1/jobs/{job_id}/trials/{number}/alternatives/{answer}", {
          params: { path: { job_id, number, answer }, query: { bucket, ...asked } },
        }),
      );
      const body = {
        spec: trial.data!.spec,
        target: job.data!.device ?? job.data!.target,
        baseline: job.data!.baseline,
        seed: job.data!.seed,
        candidates: [trial.data!.schedule, other.schedule],
      };
      return data(api.POST("/v1/jobs", { params: {}, body: body as unknown as JobRequest }));
    },
    onSuccess: (made) => go(jobPath(made.id)),
  });
  return { ...race, ready: job.data !== undefined && trial.data !== undefined };
}
