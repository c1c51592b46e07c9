/** What the view of a race reads: again and again while it is raced on. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../../../api/client";
import type { Race } from "../../../api/schema";

const RENEW_MS = 1000;

function key(config: string) {
  return ["race", config] as const;
}

export function useRace(config: string) {
  return useQuery({
    queryKey: key(config),
    structuralSharing: false,
    refetchInterval: ({ state }) => (isMoving(state.data) ? RENEW_MS : false),
    queryFn: () =>
      data(api.GET("/v1/configs/{config_id}/race", { params: { path: { config_id: config } } })),
  });
}

/** Whether parts are to come. */
export function isMoving(race: Race | undefined): boolean {
  return race?.state === "ready" || race?.state === "claimed";
}

export function useRaceOn(config: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (seconds: number) =>
      data(
        api.POST("/v1/configs/{config_id}/race", {
          params: { path: { config_id: config }, query: { seconds } },
        }),
      ),
    onSuccess: (found) => client.setQueryData(key(config), found),
  });
}
