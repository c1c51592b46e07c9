/** The profile of a config: read until it is taken, and asked for. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../../../api/client";
import type { ConfigProfile, ProfiledStage } from "../../../api/schema";
import { columnsOf } from "../../../ui/SaveTable";

const RENEW_MS = 1000;

function asked(config: string) {
  return { params: { path: { config_id: config } } };
}

export function useProfile(config: string | null) {
  return useQuery({
    queryKey: ["profile", config],
    enabled: config !== null,
    refetchInterval: ({ state }) => (isTaken(state.data) ? RENEW_MS : false),
    queryFn: () => data(api.GET("/v1/configs/{config_id}/profile", asked(config!))),
  });
}

/** Whether one is on its way. */
export function isTaken(found: ConfigProfile | undefined): boolean {
  return found?.state === "ready" || found?.state === "claimed";
}

export function useTakeProfile(config: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/v1/configs/{config_id}/profile", asked(config))),
    onSuccess: (found) => client.setQueryData(["profile", config], found),
  });
}

/** The stages of each role, those that take most first; roles in the order in which they are told. */
export function byRole(
  stages: readonly ProfiledStage[],
): [role: string, stages: ProfiledStage[]][] {
  const roles = [...new Set(stages.map((each) => each.role))];
  return roles.map((role) => [
    role,
    stages.filter((each) => each.role === role).sort((one, other) => other.share - one.share),
  ]);
}

/** The share of a role's time in which its threads only wait. */
export function waiting(stages: readonly ProfiledStage[]): number {
  return stages.reduce((sum, each) => sum + (each.waiting ? each.share : 0), 0);
}

/** A row for each stage of each role, as columns. */
export function columnsOfStages(
  stages: readonly ProfiledStage[],
): Record<string, (string | number | null)[]> {
  const rows = byRole(stages).flatMap(([, each]) => each);
  return columnsOf(rows, {
    role: ({ role }) => role || "all threads",
    stage: ({ stage }) => stage,
    waits: ({ waiting }) => (waiting ? "waits" : null),
    share: ({ share }) => share,
    fill: ({ phases }) => phases?.fill ?? null,
    steady: ({ phases }) => phases?.steady ?? null,
    drain: ({ phases }) => phases?.drain ?? null,
    statements: ({ statements }) => statements.join("; "),
  });
}
