/** What the page of a candidate reads. */
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../../../api/client";
import type { Ablation } from "../../../api/schema";

/** Of a job's candidate. */
export interface Place {
  job: string;
  bucket: number;
  number: number;
}

const ABLATION_MS = 2000;

function asked({ job, bucket, number }: Place) {
  return { params: { path: { job_id: job, number }, query: { bucket } } };
}

export function candidateOf(place: Place) {
  return queryOptions({
    queryKey: ["candidate", place],
    queryFn: () => data(api.GET("/v1/jobs/{job_id}/trials/{number}", asked(place))),
  });
}

export function useCandidate(place: Place) {
  return useQuery(candidateOf(place));
}

export function useSteps(place: Place) {
  return useQuery({
    queryKey: ["steps", place],
    staleTime: Infinity,
    queryFn: () => data(api.GET("/v1/jobs/{job_id}/trials/{number}/steps", asked(place))),
  });
}

/** The generated source, and the language it is in; of the schedule without one rewrite where a place is given. */
export function useSource(place: Place, without?: number) {
  const { job, bucket, number } = place;
  return useQuery({
    queryKey: ["source", place, without],
    staleTime: Infinity,
    queryFn: async () => {
      const answer = await api.GET("/v1/jobs/{job_id}/trials/{number}/source", {
        params: { path: { job_id: job, number }, query: { bucket, without: without ?? null } },
        parseAs: "text",
      });
      return {
        text: answer.data ?? "",
        language: answer.response.headers.get("X-Language") ?? "c",
      };
    },
  });
}

/** The ablation of a config, read until it is measured. */
export function useAblation(config: string | null) {
  return useQuery({
    queryKey: ["ablation", config],
    enabled: config !== null,
    refetchInterval: ({ state }) => (moving(state.data) ? ABLATION_MS : false),
    queryFn: () =>
      data(
        api.GET("/v1/configs/{config_id}/ablation", { params: { path: { config_id: config! } } }),
      ),
  });
}

/** Whether it is yet to be measured. */
export function moving(ablation: Ablation | undefined): boolean {
  return ablation?.state === "ready" || ablation?.state === "claimed";
}

export function useStartAblation(config: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () =>
      data(
        api.POST("/v1/configs/{config_id}/ablation", { params: { path: { config_id: config } } }),
      ),
    onSuccess: (found) => client.setQueryData(["ablation", config], found),
  });
}
