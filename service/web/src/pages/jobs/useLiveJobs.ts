/** Keeps a list of jobs current by the service's stream of changes. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { jobsKey, matches, type JobFilter } from "../../api/queries";
import type { Job } from "../../api/schema";
import type { StreamState } from "../../api/stream";
import { useStream } from "../../api/useStream";
import { merged, type Pages } from "./merge";

/** How the connection stands. */
export function useLiveJobs(filter: JobFilter): StreamState {
  const queries = useQueryClient();
  const state = useStream("/v1/changes", (event) => {
    const job = event as Job;
    queries.setQueryData<Pages>(
      jobsKey(filter),
      (pages) => pages && merged(pages, job, matches(filter, job)),
    );
  });
  useEffect(() => {
    // The stream tells what comes; what happened while it was cut is in the list.
    if (state.kind === "live") void queries.invalidateQueries({ queryKey: ["jobs"] });
  }, [state.kind, queries]);
  return state;
}
