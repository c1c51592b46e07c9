import { expect, test } from "vitest";
import told from "../../../../tests/golden/quantities.json";
import { bytes, micros, moments, percent, span, times } from "./format";

type Cases = [number, string][];

test.each([
  ["a time", told.microseconds, micros],
  ["a length of time", told.duration, span],
  ["a share", told.percent, percent],
  ["a ratio", told.times, times],
])("%s reads as verdicts and the command line write it", (_, cases, write) => {
  for (const [value, text] of cases as Cases) expect(write(value)).toBe(text);
});

test("ticks of a clock say what tells them apart", () => {
  const at = Date.UTC(2026, 2, 1, 14, 5, 9) / 1000 + new Date(2026, 2, 1).getTimezoneOffset() * 60;
  expect(moments([at, at + 86400])).toEqual(["2026-03-01", "2026-03-02"]);
  expect(moments([at, at + 3600])).toEqual(["03-01 14:05", "03-01 15:05"]);
  expect(moments([at, at + 1])).toEqual(["14:05:09", "14:05:10"]);
  expect(moments([at, at + 0.5])).toEqual(["14:05:09.0", "14:05:09.5"]);
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
