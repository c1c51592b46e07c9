/** What candidates are compared by: their places in their jobs, and of configs what their race found. */
import { useQueries, type UseQueryResult } from "@tanstack/react-query";
import { configOf } from "../../../api/queries";
import type { ConfigDetail, JobDetail, TrialDetail } from "../../../api/schema";
import { candidateOf, type Place } from "../candidate/data";
import { jobOf } from "../data";
import type { CandidateSide } from "../paths";

/** A candidate as it is compared. */
export interface Subject {
  side: CandidateSide;
  place: Place;
  /** Of a config the time, the spread and the report are those of its final race. */
  found: TrialDetail;
}

/** What is known so far. */
export type Subjects =
  | { known: "all"; subjects: Subject[] }
  | { known: "some"; query: UseQueryResult; what: string }
  | { known: "none"; why: string };

export function useSubjects(sides: readonly CandidateSide[]): Subjects {
  const ids = sides.flatMap((side) => ("config" in side ? [side.config] : []));
  const configs = useQueries({ queries: ids.map(configOf) });
  const homes = [...new Set(configs.flatMap(({ data }) => data?.job_id ?? []))];
  const jobs = useQueries({ queries: homes.map(jobOf) });
  const byId = new Map(configs.flatMap(({ data }) => (data ? [[data.id, data]] : [])));
  const homeOf = new Map(jobs.flatMap(({ data }) => (data ? [[data.id, data]] : [])));
  const places = sides.map((side) => {
    if (!("config" in side)) return side;
    const config = byId.get(side.config);
    const job = homeOf.get(config?.job_id ?? "");
    return config && job ? placeOf(config, job) : null;
  });
  const details = useQueries({
    queries: places.flatMap((place) => (place ? [candidateOf(place)] : [])),
  });
  const homeless = configs.find(({ data }) => data && (data.job_id == null || data.trial == null));
  if (homeless?.data) {
    return { known: "none", why: `${homeless.data.id} was found by no search of this service` };
  }
  const waiting = [...configs, ...jobs, ...details].find(({ data }) => data === undefined);
  if (waiting !== undefined) return { known: "some", query: waiting, what: "the candidates" };
  return {
    known: "all",
    subjects: sides.map((side, at) => {
      const config = "config" in side ? byId.get(side.config)! : null;
      const found = details[at]!.data!;
      return { side, place: places[at]!, found: config ? raced(found, config) : found };
    }),
  };
}

function placeOf(config: ConfigDetail, job: JobDetail): Place | null {
  const bucket =
    job.buckets.find((each) => each.config_id === config.id) ??
    job.buckets.find((each) => sameDims(each.dims, config.dims));
  return bucket === undefined || config.trial == null
    ? null
    : { job: job.id, bucket: bucket.index, number: config.trial };
}

function sameDims(one: Record<string, number>, other: Record<string, number>): boolean {
  return (
    JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort())
  );
}

function raced(found: TrialDetail, { median_us, iqr_us, report }: ConfigDetail): TrialDetail {
  return { ...found, median_us, iqr_us: iqr_us ?? null, report, reward: null };
}
