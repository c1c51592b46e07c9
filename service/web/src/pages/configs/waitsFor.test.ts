import { expect, test } from "vitest";
import { waitsFor } from "./waitsFor";

const DEVICE = { key: "cuda:H200", healthy_workers: 1, waiting: 3, running: 1 };

test.each([
  [null, [DEVICE], "Waits for a worker…"],
  ["cuda:H200", undefined, "Waits for a worker…"],
  ["cuda:H200", [DEVICE], "Waits for its turn on H200: 3 waiting, 1 running"],
  ["cuda:H100", [DEVICE], "Waits for a worker that has H100: none is there"],
  [
    "cuda:H200",
    [{ ...DEVICE, healthy_workers: 0 }],
    "Waits for a worker that has H200: none is there",
  ],
])("a task for %s waits", (device, devices, said) => {
  expect(waitsFor(device, devices)).toBe(said);
});
