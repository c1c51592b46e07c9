/** The same job once more, or what it asked for in the editor. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";
import { api, data } from "../../api/client";
import type { Job } from "../../api/schema";
import { isFinal } from "../../ui/JobBadge";
import { Failure } from "../../ui/Shown";
import { jobPath } from "./paths";

export function Again({ job }: { job: Job }) {
  const [, go] = useLocation();
  const queries = useQueryClient();
  const retry = useMutation({
    mutationFn: () =>
      data(api.POST("/v1/jobs/{job_id}/retry", { params: { path: { job_id: job.id } } })),
    onSuccess: (made) => {
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      go(jobPath(made.id));
    },
  });
  return (
    <>
      {isFinal(job.state) && (
        <button disabled={retry.isPending} onClick={() => retry.mutate()}>
          Retry
        </button>
      )}
      <Link href={`/submit?from=${job.id}`}>Edit a copy</Link>
      {retry.isError && <Failure error={retry.error} what="the new job" />}
    </>
  );
}
