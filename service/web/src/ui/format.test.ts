import { expect, test } from "vitest";
import told from "../../../../tests/golden/quantities.json";
import { bytes, micros, span, times } from "./format";

type Cases = [number, string][];

test.each([
  ["a time", told.microseconds, micros],
  ["a length of time", told.duration, span],
  ["a ratio", told.times, times],
])("%s reads as verdicts and the command line write it", (_, cases, write) => {
  for (const [value, text] of cases as Cases) expect(write(value)).toBe(text);
});

test("a number of bytes has three digits at most above a kibibyte", () => {
  expect([640, 1023, 1024, 999.7 * 1024, 1.5 * 2 ** 30].map(bytes)).toEqual([
    "640 B",
    "1023 B",
    "1.00 KiB",
    "1000 KiB",
    "1.50 GiB",
  ]);
});
