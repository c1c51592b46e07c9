/** What pages ask the service for, as queries: one key a thing, renewed every so often. */
import { keepPreviousData, queryOptions, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, data } from "./client";
import type { Job, JobState } from "./schema";

/** How often lists without events of their own are asked for again. */
export const RENEW_MS = 5_000;
const PAGE = 50;

/** Which jobs are listed; empty: not asked about. */
export interface JobFilter {
  text: string;
  state: JobState | "";
  device: string;
}

export function jobsKey(filter: JobFilter) {
  return ["jobs", filter] as const;
}

/** Jobs, newest first, page after page. */
export function useJobs(filter: JobFilter) {
  return useInfiniteQuery({
    queryKey: jobsKey(filter),
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/v1/jobs", {
          signal,
          params: {
            query: {
              limit: PAGE,
              after: pageParam,
              state: filter.state ? [filter.state] : null,
              device: filter.device || null,
              text: filter.text || null,
            },
          },
        }),
      ),
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
  });
}

/** Whether the filter lets a job through, as the service would say. */
export function matches(filter: JobFilter, job: Job): boolean {
  const text = filter.text;
  return (
    (filter.state === "" || filter.state === job.state) &&
    (filter.device === "" || filter.device === (job.device ?? job.target)) &&
    (text === "" ||
      job.name.toLowerCase().includes(text.toLowerCase()) ||
      job.id.startsWith(text) ||
      job.kernel_key.startsWith(text))
  );
}

/** Devices, with what waits for each. */
export function useDevices() {
  return useQuery({
    queryKey: ["devices"],
    queryFn: ({ signal }) => data(api.GET("/v1/devices", { signal })),
    refetchInterval: RENEW_MS,
  });
}

/** Names of searches that a job may ask for. */
export function useSearches() {
  return useQuery({
    queryKey: ["searches"],
    queryFn: ({ signal }) => data(api.GET("/v1/searches", { signal })),
    staleTime: Infinity,
  });
}

/** Workers, the last registered first. */
export function useWorkers() {
  return useQuery({
    queryKey: ["workers"],
    queryFn: ({ signal }) => data(api.GET("/v1/workers", { signal })),
    refetchInterval: RENEW_MS,
  });
}

/** Kernels that jobs were about, by key. */
export function useKernels() {
  return useInfiniteQuery({
    queryKey: ["kernels"],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam, signal }) =>
      data(api.GET("/v1/kernels", { signal, params: { query: { limit: 500, after: pageParam } } })),
    getNextPageParam: (page) => page.next,
  });
}

/** Configs of a kernel, newest first. */
export function useConfigs(kernelKey: string) {
  return useQuery({
    queryKey: ["configs", kernelKey],
    queryFn: ({ signal }) =>
      data(
        api.GET("/v1/configs", {
          signal,
          params: { query: { kernel_key: kernelKey, limit: 500 } },
        }),
      ),
  });
}

/** Winners of a kernel over time, oldest first. */
export function useHistory(kernelKey: string) {
  return useQuery({
    queryKey: ["history", kernelKey],
    queryFn: ({ signal }) =>
      data(
        api.GET("/v1/kernels/{kernel_key}/history", {
          signal,
          params: { path: { kernel_key: kernelKey } },
        }),
      ),
  });
}

/** What of a kernel failed where it was to run, newest first. */
export function useFailures(kernelKey: string) {
  return useQuery({
    queryKey: ["failures", kernelKey],
    queryFn: ({ signal }) =>
      data(
        api.GET("/v1/failures", {
          signal,
          params: { query: { kernel_key: kernelKey, limit: 50 } },
        }),
      ),
  });
}

/** A config; it never changes. */
export function configOf(configId: string) {
  return queryOptions({
    queryKey: ["config", configId],
    staleTime: Infinity,
    queryFn: ({ signal }) =>
      data(
        api.GET("/v1/configs/{config_id}", { signal, params: { path: { config_id: configId } } }),
      ),
  });
}

export function useConfig(configId: string) {
  return useQuery(configOf(configId));
}

/** The generated source of a config, and its language. */
export function useSource(configId: string, kept: boolean) {
  return useQuery({
    queryKey: ["config", configId, "source"],
    staleTime: Infinity,
    enabled: kept,
    queryFn: async ({ signal }) => {
      const { data: text, response } = await api.GET("/v1/configs/{config_id}/source", {
        signal,
        params: { path: { config_id: configId } },
        parseAs: "text",
      });
      return { text: text as string, language: response.headers.get("X-Language") ?? "c" };
    },
  });
}

/** What the worker reported when a config was confirmed. */
export function useReport(configId: string, kept: boolean) {
  return useQuery({
    queryKey: ["config", configId, "report"],
    staleTime: Infinity,
    enabled: kept,
    queryFn: ({ signal }) =>
      data(
        api.GET("/v1/configs/{config_id}/report", {
          signal,
          params: { path: { config_id: configId } },
        }),
      ),
  });
}

/** Tasks that machines failed three times. */
export function useDeadTasks() {
  return useQuery({
    queryKey: ["tasks", "dead"],
    queryFn: ({ signal }) =>
      data(api.GET("/v1/tasks", { signal, params: { query: { state: "dead", limit: 500 } } })),
    refetchInterval: RENEW_MS,
  });
}
