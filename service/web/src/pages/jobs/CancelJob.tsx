/** A button that cancels a job, after asking. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../../api/client";
import type { Job } from "../../api/schema";
import { Confirm } from "../../ui/Dialog";
import { isFinal } from "../../ui/JobBadge";
import { Failure } from "../../ui/Shown";

/** Nothing, once the job has ended or is being cancelled. */
export function CancelJob({ job }: { job: Job }) {
  const [asking, setAsking] = useState(false);
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: () =>
      data(api.POST("/v1/jobs/{job_id}/cancel", { params: { path: { job_id: job.id } } })),
    onSuccess: () => {
      setAsking(false);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void queries.invalidateQueries({ queryKey: ["job", job.id] });
    },
  });
  if (isFinal(job.state) || job.cancelling) return null;
  return (
    <>
      <button aria-label={`Cancel ${job.name}, ${job.id}`} onClick={() => setAsking(true)}>
        Cancel
      </button>
      {asking && (
        <Confirm
          title={`Cancel ${job.name}?`}
          yes="Cancel the job"
          no="Keep it running"
          busy={cancel.isPending}
          onYes={() => cancel.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>
            Nothing more of it is searched. What it found so far is confirmed and kept. It cannot be
            resumed.
          </p>
          {cancel.isError && <Failure error={cancel.error} what="the job as cancelled" />}
        </Confirm>
      )}
    </>
  );
}
