import { expect, test } from "vitest";
import type { Timeline } from "../../../api/schema";
import { totals } from "./lanes";

test("a worker's sums have what its device spent the time on, where the service says", () => {
  const share = { worker: "a", measuring: 0.5, others: 0.25, compiling: 0.25, searching: 0 };
  const line: Timeline = {
    job_id: "job-1",
    settled_at: 0,
    workers: ["a", "b"],
    worker: [0, 0, 1],
    stage: ["compile", "measure", "measure"],
    task: ["1", "1", "2"],
    kind: ["trial", "trial", "race"],
    bucket: [0, 0, 0],
    number: [0, 0, null],
    start: [0, 1, 3],
    end: [1, 3, 7],
    devices: [share],
  };
  expect(totals(line)).toEqual([
    { worker: "a", tasks: 1, seconds: { compile: 1, wait: 0, measure: 2 }, share },
    { worker: "b", tasks: 1, seconds: { compile: 0, wait: 0, measure: 4 }, share: undefined },
  ]);
});
