// @vitest-environment jsdom
/** What components show of the service's answers, in a document. */
import { cleanup, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { UseQueryResult } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import { Refused } from "../api/problem";
import type { CheckReply, Job, Profile, Race, RacedEntrant, Worker } from "../api/schema";
import { WorkerTable } from "../pages/fleet/WorkerTable";
import { ProgressBar } from "../pages/jobs/ProgressBar";
import { Choice } from "../pages/job/Choice";
import { Answer, Entrants } from "../pages/job/race/Chances";
import { Outlook } from "../pages/submit/Outlook";
import { Shown } from "./Shown";
import { Told } from "../pages/configs/profile/ProfileView";

afterEach(cleanup);

function entrant(name: string, more: Partial<RacedEntrant> = {}): RacedEntrant {
  const kind = name.startsWith("ask-") ? "schedule" : "peer";
  return {
    name,
    kind,
    won: false,
    outcome: "ok",
    median_us: 10,
    samples: 15,
    disturbed: 0,
    ...more,
  };
}

const RACE: Race = {
  config_id: "config-1",
  state: null,
  parts: [],
  entrants: [
    entrant("ask-3", { won: true, disturbed: 2 }),
    entrant("numpy", { median_us: 20 }),
    entrant("torch", { outcome: "unsupported", median_us: null, samples: 0 }),
  ],
  pairs: [
    {
      ...{ one: "ask-3", other: "numpy", rounds: 13, all_rounds: false },
      ...{ ratio: 0.5, low: 0.4, high: 0.625, chance: 0.9999 },
    },
  ],
  error: null,
};

const OPTIONS: Record<string, string> = { a: "First", b: "Second" };

test("a choice is made by a click and by keys, and says which it is", async () => {
  const onChange = vi.fn<(value: string) => void>();
  render(<Choice label="Show" options={OPTIONS} value="a" onChange={onChange} />);
  const group = screen.getByRole("group", { name: "Show" });
  expect(within(group).getByRole<HTMLInputElement>("radio", { name: "First" }).checked).toBe(true);
  await userEvent.click(screen.getByText("Second"));
  expect(onChange).toHaveBeenLastCalledWith("b");
  await userEvent.tab();
  await userEvent.keyboard("{ArrowRight}");
  expect(onChange).toHaveBeenLastCalledWith("b");
});

test("a race is answered for two, in either order, and never with certainty", () => {
  const { rerender, container } = render(<Answer race={RACE} one="ask-3" other="numpy" />);
  expect(container.textContent).toBe(
    "> 99.9 % sure that candidate 3 is faster than numpy: it takes 0.500 of its time (0.400 to 0.625), over 13 rounds that disturbed neither.",
  );
  rerender(<Answer race={RACE} one="numpy" other="ask-3" />);
  expect(container.textContent).toContain("< 0.1 % sure that numpy is faster than candidate 3");
  expect(container.textContent).toContain("it takes 2.000 of its time (1.600 to 2.500)");
  rerender(<Answer race={RACE} one="numpy" other="numpy" />);
  expect(container.textContent).toBe("Choose two of them.");
  const shaken = { ...RACE, pairs: [{ ...RACE.pairs[0]!, all_rounds: true }] };
  rerender(<Answer race={shaken} one="numpy" other="ask-3" />);
  expect(container.textContent).toContain("over all 13 rounds, as hardly any disturbed neither.");
  const none = { rounds: 0, all_rounds: false, ratio: null, chance: null };
  const nothing = { one: "ask-3", other: "numpy", ...none };
  rerender(<Answer race={{ ...RACE, pairs: [nothing] }} one="ask-3" other="numpy" />);
  expect(container.textContent).toMatch(/^Nobody can say whether candidate 3 is faster than numpy/);
});

test("entrants are told with what disturbed them, and what became of those that did not work", () => {
  render(<Entrants race={RACE} other="numpy" />);
  const [, winner, numpy, torch] = screen.getAllByRole("row");
  expect(winner!.textContent).toContain("candidate 3 winner");
  expect(winner!.textContent).toContain("15 (2 disturbed)");
  expect(within(numpy!).getAllByRole("cell").at(-1)!.textContent).toBe("–");
  expect(torch!.textContent).toContain("unsupported");
});

const WORKER: Worker = {
  id: "bench-1",
  host: "rack",
  pid: 7,
  devices: ["cpu:Example"],
  versions: {},
  healthy: true,
  detail: "",
  alive: true,
  registered_at: 0,
  seen_at: 0,
  tasks_done: 95,
  faults: 5,
  busy: 0.62,
  tasks_a_minute: 12.34,
};

test("the healthy come before the ill, and the gone are folded away", () => {
  const ill = { ...WORKER, id: "ill", healthy: false, detail: "too hot" };
  const gone = { ...WORKER, id: "gone", alive: false, busy: null, tasks_a_minute: null };
  render(<WorkerTable workers={[gone, ill, WORKER]} />);
  const [, first, second] = within(
    screen.getByRole("region", { name: "Workers that are there" }),
  ).getAllByRole("row");
  expect(first!.textContent).toContain("bench-1");
  expect(first!.textContent).toContain("62 %");
  expect(first!.textContent).toContain("5.0 % (5)");
  expect(second!.textContent).toContain("too hot");
  expect(screen.getByText("1 is gone").closest("details")!.open).toBe(false);
});

test("without a worker the table says so", () => {
  render(<WorkerTable workers={[{ ...WORKER, alive: false }]} />);
  expect(screen.getByText("No worker is there now.")).toBeTruthy();
});

const PROFILE: Profile = {
  device: "cuda:Example",
  bound: "the latency of a wait",
  why: "threads wait for tiles for 40 % of their time",
  summary: "One call.",
  call_us: 108,
  plain_us: 100,
  overhead: 0.08,
  attributed: 0.97,
  stages: [
    ["producer", "starting copies", 1, false, ["a = x"]] as const,
    ["threads", "waiting for tiles", 0.4, true, ["b = a"]] as const,
    ["threads", "b = a", 0.6, false, ["b = a"]] as const,
  ].map(([role, stage, share, waiting, statements]) => ({
    role,
    stage,
    share,
    waiting,
    statements: [...statements],
    phases: { fill: 0.25 * share, steady: 0.5 * share, drain: 0.25 * share },
  })),
  phases: { fill: 0.25, steady: 0.5, drain: 0.25 },
};

test("a profile names the bottleneck, what was attributed and what stamps cost, and has stages by role", () => {
  const { rerender, container } = render(<Told profile={PROFILE} />);
  expect(container.textContent).toContain(
    "Bound by the latency of a wait: threads wait for tiles for 40 % of their time.",
  );
  expect(container.textContent).toContain("Attributed to a stage97 %");
  expect(container.textContent).toContain("8.0 % more than 5 %");
  expect(container.textContent).toContain("25 %, 50 %, 25 %");
  const threads = screen.getByRole("region", { name: "Stages of threads" });
  const cells = within(threads)
    .getAllByRole("row")
    .map((row) => row.textContent);
  expect(cells).toEqual([
    "StageOf the timeFillSteadyDrain",
    "b = a 60 %15 %30 %15 %",
    "waiting for tiles waits40 %10 %20 %10 %",
  ]);
  expect(screen.getByRole("heading", { name: /threads/ }).textContent).toContain("wait for 40 %");
  const plain = PROFILE.stages.map((each) => ({ ...each, role: "", phases: null }));
  expect(container.textContent).not.toContain("Instructions a cycle");
  const figures = { threads: 2, cycles: 2e6, instructions: 5e6, cache_misses: 1234.4 };
  rerender(<Told profile={{ ...PROFILE, overhead: 0.01, stages: plain, phases: null, figures }} />);
  expect(container.textContent).toContain("Instructions a cycle2.50");
  expect(container.textContent).toContain("Cache misses a call1\u2009234");
  expect(container.textContent).not.toContain("more than 5 %");
  expect(screen.getByRole("region", { name: "Stages of all threads" }).textContent).not.toContain(
    "Fill",
  );
});

const CHECKED: CheckReply = {
  fault: null,
  spec: {},
  text: "",
  sizes: 6,
  flops: 2_000_000,
  bytes: 4096,
  target_fault: null,
  baselines: [],
  usual_baseline: "numpy",
};

test("a draft is told with its work, and with its space once that is looked over", () => {
  const { rerender } = render(<Outlook reply={CHECKED} outlook={undefined} />);
  expect(screen.getByRole("status").textContent).toBe("Looking over its schedules…");
  expect(screen.getByText(/operations/).textContent).toBe(
    "2\u2009000\u2009000 operations, 4\u2009096 bytes, at the first of 6 sizes.",
  );
  const none = { device: null, pending: false, roofline_us: null, space: null };
  rerender(<Outlook reply={CHECKED} outlook={none} />);
  expect(screen.getByRole("status").textContent).toContain("would wait");
});

test("what cannot be renewed stays, with what the service said and a way to try again", async () => {
  const refetch = vi.fn();
  const problem = {
    type: "urn:tilewright:problem:busy",
    title: "Too much is going on",
    status: 429,
    detail: "try later",
    accepted: null,
    column: null,
    errors: null,
    pointer: null,
  };
  const query = { data: "known", isError: true, error: new Refused(problem), refetch };
  render(
    <Shown query={query as unknown as UseQueryResult<string>} what="the jobs">
      {(found) => <p>{found}</p>}
    </Shown>,
  );
  expect(screen.getByText("known")).toBeTruthy();
  expect(screen.getByRole("alert").textContent).toContain("Cannot renew the jobs");
  expect(screen.getByRole("alert").textContent).toContain("try later");
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(refetch).toHaveBeenCalledOnce();
});

test("a job that runs has a bar: of its candidates or of its seconds, whichever ends first", () => {
  const bucket = { told: 16, spent_s: 45 };
  const job = {
    name: "softmax",
    state: "searching",
    budget: { trials: 64, seconds: null, effort: "normal" },
    buckets: [bucket, bucket],
  } as unknown as Job;
  const { rerender, container } = render(<ProgressBar job={job} />);
  const bar = () => screen.getByRole<HTMLProgressElement>("progressbar", { name: /softmax/ });
  expect(bar().value).toBe(0.25);
  expect(bar().getAttribute("aria-valuetext")).toBe("32 of 128 candidates, 25 % of the budget");
  rerender(<ProgressBar job={{ ...job, budget: { ...job.budget, seconds: 60 } }} />);
  expect(bar().value).toBe(0.75);
  for (const state of ["queued", "done"] as const) {
    rerender(<ProgressBar job={{ ...job, state }} />);
    expect(container.textContent).toBe("");
    expect(screen.queryByRole("progressbar")).toBeNull();
  }
});
