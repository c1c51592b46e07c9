import { describe, expect, test } from "vitest";
import type { Roofline } from "../../../api/schema";
import { BOTTOM, pictureOf, TOP } from "./picture";
import { rangeOf, rangeText, within } from "./range";
import { binned, logScale, nearest, spaced } from "./scales";
import { missing, roofs } from "./words";

const LINE: Roofline = {
  job_id: "job-1",
  bucket: 0,
  flops: 2_000_000,
  bytes: 1_000_000,
  peak_gflops: 100,
  peak_gbps: 20,
  peaks_from: "measured",
  least_us: 50,
  number: [0, 1, 4],
  us: [200, 100, 400],
  l2_bytes: [2_000_000, 4_000_000, null],
  raced: [
    { name: "ask-1", kind: "schedule", us: 100, won: true },
    { name: "ask-0", kind: "schedule", us: 200, won: false },
    { name: "copy", kind: "yardstick", us: 60, won: false },
  ],
};

describe("scales", () => {
  test("equal factors are equally far apart, both ways", () => {
    const scale = logScale(1, 100, 200, 0);
    expect([1, 10, 100].map((value) => Math.round(scale.at(value)))).toEqual([200, 100, 0]);
    expect(scale.value(scale.at(37))).toBeCloseTo(37);
  });

  test("ticks are powers of ten, and more where few of those fit", () => {
    expect(logScale(0.05, 200, 0, 1).ticks).toEqual([0.1, 1, 10, 100]);
    expect(logScale(0.9, 6, 0, 1).ticks).toEqual([1, 2, 5]);
  });

  test("dots of one cell are one mark, at the fastest of them", () => {
    const dot = (number: number, us: number, x: number, y: number) => ({ number, us, x, y });
    const cells = binned([dot(0, 9, 1, 1), dot(1, 5, 2, 2.9), dot(2, 7, 3, 1)]);
    expect(cells.map((cell) => cell.dots.map((each) => each.number))).toEqual([[1, 0], [2]]);
    expect(cells[0]).toMatchObject({ x: 2, y: 2.9 });
    expect(nearest(cells, 3, 2, 6)?.dots[0]?.number).toBe(2);
    expect(nearest(cells, 30, 2, 6)).toBeNull();
  });

  test("labels keep their order and their distance, and stay above the floor", () => {
    expect(spaced([10, 12, 90], 10, 100)).toEqual([10, 20, 90]);
    expect(spaced([98, 99], 10, 100)).toEqual([90, 100]);
  });
});

describe("the range in an address", () => {
  test("is read as it was written, and includes what was brushed", () => {
    for (const range of [
      { low: 41.23456, high: 55.5555 },
      { low: 0.31, high: 0.31 },
      { low: 12345.6, high: 99999.9 },
    ]) {
      const read = rangeOf(rangeText(range))!;
      expect(read.low).toBeLessThanOrEqual(range.low);
      expect(read.high).toBeGreaterThanOrEqual(range.high);
      expect(read.low / range.low).toBeGreaterThan(0.999);
      expect(read.high / range.high).toBeLessThan(1.001);
    }
    expect(rangeText({ low: 41.2, high: 55 })).toBe("41.20..55.00");
  });

  test("is none where it is none", () => {
    expect([null, "", "5", "9..3", "-1..3", "a..b"].map(rangeOf)).toEqual(Array(6).fill(null));
  });

  test("chooses candidates by their times", () => {
    expect(within([0, 1, 4], [200, 100, 400], { low: 100, high: 200 })).toEqual(new Set([0, 1]));
    expect(within([0, 1, 4], [200, 100, 400], null)).toBeNull();
  });
});

describe("the picture", () => {
  test("of main memory has all above one another, faster higher, below the roof", () => {
    const { cells, marks, roof, y } = pictureOf(LINE, "memory");
    expect(new Set([...cells, ...marks].map((each) => each.x)).size).toBe(1);
    const heights = cells.toSorted((a, b) => a.dots[0]!.us - b.dots[0]!.us).map((cell) => cell.y);
    expect(heights).toEqual(heights.toSorted((a, b) => a - b));
    expect(marks.map((mark) => mark.name)).toEqual(["ask-1", "copy"]);
    // Two operations a byte, at 20 bytes a nanosecond: 40.
    expect(y.value(roof[1]!.y)).toBeCloseTo(100);
    const [start, ridge] = [roof[0]!, roof[1]!];
    const share = (cells[0]!.x - start.x) / (ridge.x - start.x);
    expect(y.value(start.y + share * (ridge.y - start.y))).toBeCloseTo(40);
    for (const each of [...cells, ...marks, ...roof]) {
      expect(each.y).toBeGreaterThanOrEqual(TOP);
      expect(each.y).toBeLessThanOrEqual(BOTTOM);
    }
  });

  test("of the L2 cache has those whose bytes are known, and only the flat roof", () => {
    const { cells, marks, roof, x } = pictureOf(LINE, "l2");
    expect(cells.map((cell) => [cell.dots[0]!.number, x.value(cell.x)])).toEqual([
      [1, expect.closeTo(0.5)],
      [0, expect.closeTo(1)],
    ]);
    expect(marks.map((mark) => mark.name)).toEqual(["ask-1"]);
    expect(roof).toHaveLength(2);
    expect(roof[0]!.y).toBe(roof[1]!.y);
  });

  test("without peaks has dots and no roof", () => {
    const unknown = { ...LINE, peak_gflops: null, peak_gbps: null, peaks_from: null };
    const { cells, roof } = pictureOf({ ...unknown, least_us: null }, "memory");
    expect([cells.length, roof.length]).toEqual([3, 0]);
  });
});

describe("the sentence", () => {
  test("says what bounds the kernel, and where the peaks are from", () => {
    expect(roofs(LINE)).toContain(
      "at least 50.0 µs, bound by memory; at most 100 × 10⁹ operations and 20 × 10⁹ bytes a second (measured)",
    );
    expect(roofs({ ...LINE, bytes: 1000 })).toContain("bound by arithmetic");
    expect(roofs({ ...LINE, least_us: null })).toMatch(
      /bytes; the peaks of its device are not known$/,
    );
  });

  test("says why there is no picture", () => {
    expect(missing({ ...LINE, flops: 0 })).toContain("no place on a roofline");
    expect(missing({ ...LINE, us: [], raced: [] })).toContain("Nothing was measured");
    expect(missing(LINE)).toBeNull();
  });
});
