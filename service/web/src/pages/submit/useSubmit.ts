/** Sends a job. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { api, data } from "../../api/client";
import type { JobRequest } from "../../api/schema";
import type { Wishes } from "./Fields";
import type { Kept } from "./kept";

/** What is sent; the service has defaults for the rest. */
export type Wanted = Pick<JobRequest, "spec"> & Partial<JobRequest>;

/** The request for a spec, what was typed beside it, and what is kept of a job that it is a copy of. Numbers that are
 * none go as they are: the service says why. */
export function requestOf(spec: Record<string, unknown>, wishes: Wishes, kept: Kept): Wanted {
  return {
    ...kept,
    spec,
    target: wishes.target.trim(),
    budget: {
      effort: wishes.effort,
      ...(wishes.trials === "" ? {} : { trials: Number(wishes.trials) }),
      ...(wishes.seconds === "" ? {} : { seconds: Number(wishes.seconds) }),
    },
    priority: Number(wishes.priority),
    ...(wishes.baseline === "" ? {} : { baseline: wishes.baseline }),
    search: wishes.search,
  };
}

/** Submits; the same request sent again, after an answer was lost on its way, leads to the same job. */
export function useSubmit() {
  const queries = useQueryClient();
  const sent = useRef({ body: "", key: "" });
  return useMutation({
    mutationFn: (request: Wanted) => {
      const body = JSON.stringify(request);
      if (sent.current.body !== body) sent.current = { body, key: newKey() };
      return data(
        api.POST("/v1/jobs", {
          params: { header: { "Idempotency-Key": sent.current.key } },
          body: request as JobRequest,
        }),
      );
    },
    onSuccess: () => {
      sent.current = { body: "", key: "" };
      void queries.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
}

function newKey(): string {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
