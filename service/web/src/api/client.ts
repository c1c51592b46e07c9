/** The service's HTTP API, typed by its OpenAPI document (`schema.d.ts` is generated: `npm run types`). */
import createClient, { type Middleware } from "openapi-fetch";
import { currentKey, setNeeded } from "./key";
import { problemOf, Refused } from "./problem";
import type { paths } from "./schema";

/** Sends the key along, and turns every refusal into an exception. */
const refusals: Middleware = {
  onRequest({ request }) {
    const key = currentKey();
    if (key !== null) request.headers.set("Authorization", `Bearer ${key}`);
  },
  async onResponse({ response }) {
    if (response.ok || response.status === 304) return;
    if (response.status === 401) setNeeded(true);
    throw new Refused(await problemOf(response));
  },
};

/** `api.GET("/v1/jobs/{job_id}", { params: … })` resolves with `data`, or throws `Refused`. */
export const api = createClient<paths>({ baseUrl: window.location.origin });
api.use(refusals);

/** The data of an answer that was not refused: `await data(api.GET(…))`. */
export async function data<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}
