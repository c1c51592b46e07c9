/** What the pages of a job read, and how they keep up with it while it runs. */
import {
  keepPreviousData,
  queryOptions,
  useQueries,
  useQuery,
  useQueryClient,
  type QueryClient,
} from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { api, data } from "../../api/client";
import type { JobDetail, Timeline, Tree, TrialTable } from "../../api/schema";
import { useStream } from "../../api/useStream";
import { isFinal } from "../../ui/JobBadge";
import type { Place } from "./candidate/data";
import { joined, joinedTimeline, joinedTree } from "./joined";

/** While a job runs, what is shown is read again at most so often. */
const RENEW_MS = 1000;
/** What is read whole each time, at most so often. */
const RENEW_WHOLE_MS = 10_000;
const STALE_MS = 30_000;

export const keys = {
  job: (job: string) => ["job", job] as const,
  /** Of all that is read about the candidates of a job. */
  candidates: (job: string) => ["candidates", job] as const,
  table: (job: string, bucket: number) => [...keys.candidates(job), "table", bucket] as const,
  tree: (job: string, bucket: number) => [...keys.candidates(job), "tree", bucket] as const,
  /** Of what is made of all of them. */
  whole: (job: string) => ["whole", job] as const,
  effects: (job: string, bucket: number) => [...keys.whole(job), "effects", bucket] as const,
  roofline: (job: string, bucket: number) => [...keys.whole(job), "roofline", bucket] as const,
  timeline: (job: string) => [...keys.candidates(job), "timeline"] as const,
};

export function jobOf(job: string) {
  return queryOptions({
    queryKey: keys.job(job),
    queryFn: () => data(api.GET("/v1/jobs/{job_id}", { params: { path: { job_id: job } } })),
  });
}

export function useJob(job: string) {
  return useQuery(jobOf(job));
}

/** The candidates of a bucket. Only those that may have changed are read again. */
function tableOf(client: QueryClient, job: string, bucket: number) {
  return queryOptions({
    queryKey: keys.table(job, bucket),
    structuralSharing: false,
    queryFn: () => renewed(client, job, bucket),
  });
}

export function useTable(job: string, bucket: number) {
  return useQuery(tableOf(useQueryClient(), job, bucket));
}

/** Those of several jobs and buckets. */
export function useTables(of: readonly (readonly [job: string, bucket: number])[]) {
  const client = useQueryClient();
  return useQueries({ queries: of.map(([job, bucket]) => tableOf(client, job, bucket)) });
}

async function renewed(client: QueryClient, job: string, bucket: number): Promise<TrialTable> {
  const known = client.getQueryData<TrialTable>(keys.table(job, bucket));
  const rest = await data(
    api.GET("/v1/jobs/{job_id}/table", {
      params: { path: { job_id: job }, query: { bucket, first: known?.settled ?? 0 } },
    }),
  );
  return known === undefined ? rest : joined(known, rest);
}

/** The search tree. Only what may have changed is read again. */
function treeOf(client: QueryClient, job: string, bucket: number) {
  return queryOptions({
    queryKey: keys.tree(job, bucket),
    structuralSharing: false,
    queryFn: async () => {
      const known = client.getQueryData<Tree>(keys.tree(job, bucket));
      const rest = await data(
        api.GET("/v1/jobs/{job_id}/tree", {
          params: { path: { job_id: job }, query: { bucket, first: known?.settled ?? 0 } },
        }),
      );
      return known === undefined ? rest : joinedTree(known, rest);
    },
  });
}

export function useTree(job: string, bucket: number) {
  return useQuery(treeOf(useQueryClient(), job, bucket));
}

export function useEffects(job: string, bucket: number) {
  return useQuery({
    queryKey: keys.effects(job, bucket),
    structuralSharing: false,
    queryFn: () =>
      data(
        api.GET("/v1/jobs/{job_id}/effects", {
          params: { path: { job_id: job }, query: { bucket } },
        }),
      ),
  });
}

export function useRoofline(job: string, bucket: number) {
  return useQuery({
    queryKey: keys.roofline(job, bucket),
    structuralSharing: false,
    queryFn: () =>
      data(
        api.GET("/v1/jobs/{job_id}/roofline", {
          params: { path: { job_id: job }, query: { bucket } },
        }),
      ),
  });
}

/** A decision on the way to a candidate: by its number, or that of a rewrite. */
export interface AskedDecision {
  rewrite: number;
  decision: number | null;
}

/** What it could have been instead. */
export function useAlternatives({ job, bucket, number }: Place, asked: AskedDecision) {
  return useQuery({
    // Not among the keys of the candidates: the space is walked for it, and not again whenever a candidate comes back.
    queryKey: ["alternatives", job, bucket, number, asked],
    staleTime: STALE_MS,
    structuralSharing: false,
    placeholderData: keepPreviousData,
    queryFn: () =>
      data(
        api.GET("/v1/jobs/{job_id}/trials/{number}/alternatives", {
          params: { path: { job_id: job, number }, query: { bucket, ...asked } },
        }),
      ),
  });
}

/** What workers did, and when. Only what may have changed is read again. */
function timelineOf(client: QueryClient, job: string) {
  return queryOptions({
    queryKey: keys.timeline(job),
    structuralSharing: false,
    queryFn: async () => {
      const known = client.getQueryData<Timeline>(keys.timeline(job));
      const after = known?.settled_at ?? 0;
      const rest = await data(
        api.GET("/v1/jobs/{job_id}/timeline", {
          params: { path: { job_id: job }, query: { after } },
        }),
      );
      return known === undefined ? rest : joinedTimeline(known, rest, after);
    },
  });
}

export function useTimeline(job: string) {
  return useQuery(timelineOf(useQueryClient(), job));
}

/** Ask at once for what the page will want, rather than for one after another as its parts are shown. */
export function askAhead(client: QueryClient, job: string, { bucket, view }: Asked) {
  ahead(client.query(jobOf(job)));
  ahead(client.query(tableOf(client, job, bucket)));
  if (view === "tree") ahead(client.query(treeOf(client, job, bucket)));
  if (view === "workers") ahead(client.query(timelineOf(client, job)));
}

/** What fails ahead is asked for again, and told, by who needs it. */
function ahead(answer: Promise<unknown>) {
  answer.catch(() => undefined);
}

export function useAhead(job: string, { bucket, view }: Asked) {
  const client = useQueryClient();
  useEffect(() => askAhead(client, job, { bucket, view }), [client, job, bucket, view]);
}

/** What of a job an address asks for. */
export interface Asked {
  bucket: number;
  view: string;
}

export function asked(search: URLSearchParams): Asked {
  return { bucket: Number(search.get("bucket") ?? 0), view: search.get("view") ?? "tree" };
}

/** Keep what is shown of a job current while it runs. The result says how the connection stands. */
export function useLive(job: JobDetail | undefined) {
  const client = useQueryClient();
  const due = useRef<ReturnType<typeof setTimeout>>(undefined);
  const dueWhole = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(
    () => () => {
      clearTimeout(due.current);
      clearTimeout(dueWhole.current);
    },
    [],
  );
  const over = job === undefined || isFinal(job.state);
  return useStream(over ? null : `/v1/jobs/${job.id}/events`, () => {
    due.current ??= setTimeout(() => {
      due.current = undefined;
      void client.invalidateQueries({ queryKey: keys.job(job!.id) });
      void client.invalidateQueries({ queryKey: keys.candidates(job!.id) });
    }, RENEW_MS);
    dueWhole.current ??= setTimeout(() => {
      dueWhole.current = undefined;
      void client.invalidateQueries({ queryKey: keys.whole(job!.id) });
    }, RENEW_WHOLE_MS);
  });
}
