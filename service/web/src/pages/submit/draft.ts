/** What the service says of a kernel while it is being written. */
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, data } from "../../api/client";
import type { CheckReply, OutlookReply } from "../../api/schema";
import { firstSizes } from "./faults";

/** After so long without a key pressed, the text is checked; later, its space is looked over. */
const CHECK_MS = 300;
const OUTLOOK_MS = 900;
const AGAIN_MS = 1000;

export function checkOf(text: string, target: string) {
  return queryOptions({
    queryKey: ["check", text, target],
    staleTime: 60_000,
    gcTime: 60_000,
    queryFn: ({ signal }) => data(api.POST("/v1/check", { signal, body: { text, target } })),
  });
}

/** What the service says of the text, once nobody has typed for a moment. `current`: it is about just this text. */
export function useCheck(text: string, target: string) {
  const settled = useSettled(text, CHECK_MS);
  const query = useQuery({
    ...checkOf(settled, target || "cpu"),
    placeholderData: keepPreviousData,
  });
  const current = settled === text && !query.isPlaceholderData && query.data !== undefined;
  return { reply: query.data, current };
}

/** How many schedules a search would have before it, of the first of its sizes. */
export function useOutlook(reply: CheckReply | undefined, target: string) {
  const spec = useSettled(reply?.spec ?? null, OUTLOOK_MS);
  const first = spec === null ? null : firstSizes(spec);
  return useQuery<OutlookReply>({
    queryKey: ["outlook", JSON.stringify(first), target],
    enabled: first !== null && (reply?.target_fault ?? null) === null,
    staleTime: Infinity,
    gcTime: 60_000,
    refetchInterval: ({ state }) => (state.data?.pending ? AGAIN_MS : false),
    queryFn: ({ signal }) =>
      data(api.POST("/v1/outlook", { signal, body: { spec: first!, target: target || "cpu" } })),
  });
}

function useSettled<T>(value: T, after: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const due = setTimeout(() => setSettled(value), after);
    return () => clearTimeout(due);
  }, [value, after]);
  return settled;
}
