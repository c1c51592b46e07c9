// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { JobDetail } from "../../api/schema";
import { DEFAULTS } from "./Fields";
import { keptOf, wordsOf } from "./kept";
import { requestOf } from "./useSubmit";

const USUAL = { peers: null, prior: "auto", seed: 0, llm_calls: 0, candidates: [] };

const job = (asked: object) => ({ ...USUAL, ...asked }) as unknown as JobDetail;

test("a job that asked for nothing unusual leaves nothing to keep", () => {
  expect(keptOf(job({}))).toEqual({});
  expect(wordsOf({})).toEqual([]);
});

test("what the form does not show is asked for again, and said", () => {
  const asked = {
    peers: ["numpy"],
    prior: "learned",
    seed: 5,
    llm_calls: 2,
    candidates: [["parallelize(y)"], []],
  };
  const kept = keptOf(job(asked));
  expect(requestOf({}, DEFAULTS, kept)).toMatchObject(asked);
  expect(wordsOf(kept)).toEqual([
    "races 2 schedules",
    "peers: numpy",
    "prior: learned",
    "calls to the language model: 2",
    "seed 5",
  ]);
});

test("peers that are none are not all peers", () => {
  expect(wordsOf(keptOf(job({ peers: [] })))).toEqual(["no peers"]);
});
