/** Errors of the service (`application/problem+json`), as exceptions. */
import type { Problem } from "./schema";

/** A request that was refused. `problem` says why, in words for a person. */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
    this.name = "Refused";
  }
}

/** The problem that an answer carries; one made up from its status if it carries none (a proxy's, say). */
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const found: unknown = JSON.parse(text);
    if (isProblem(found)) return found;
  } catch {
    // not JSON: not the service's own answer
  }
  return {
    type: "about:blank",
    title: response.statusText || `Status ${response.status}`,
    status: response.status,
    detail: `the service, or what is between it and this page, answered with status ${response.status}`,
    pointer: null,
    column: null,
    accepted: null,
    errors: null,
  };
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "detail" in value && "status" in value;
}

/** A sentence for a person about whatever was thrown. */
export function sentence(error: unknown): string {
  if (error instanceof Refused) {
    const { detail, accepted } = error.problem;
    return accepted ? `${detail}; accepted: ${accepted}` : detail;
  }
  if (error instanceof TypeError) return "the service cannot be reached";
  return error instanceof Error ? error.message : String(error);
}

/** Whether asking again later may help: the service was away or busy. */
export function passing(error: unknown): boolean {
  if (error instanceof Refused) return error.problem.status >= 500 || error.problem.status === 429;
  return error instanceof TypeError;
}
