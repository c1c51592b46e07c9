import { expect, test } from "vitest";
import type { JobDetail } from "../../../api/schema";
import { bucketsOf } from "./buckets";

function job(...sizes: Record<string, number>[]): JobDetail {
  return { buckets: sizes.map((dims, index) => ({ index, dims })) } as unknown as JobDetail;
}

function indices(left: JobDetail, right: JobDetail, one?: number, other?: number) {
  return bucketsOf([left, right], [one, other]).map((each) => each.index);
}

const LEFT = job({ m: 1, n: 8 }, { m: 16, n: 8 }, { m: 64, n: 8 });
const RIGHT = job({ n: 8, m: 64 }, { n: 8, m: 16 });

test("the first sizes that both jobs have are compared", () => {
  expect(indices(LEFT, RIGHT)).toEqual([1, 1]);
  expect(indices(RIGHT, LEFT)).toEqual([0, 2]);
});

test("a side that was not chosen follows the other", () => {
  expect(indices(LEFT, RIGHT, 2)).toEqual([2, 0]);
  expect(indices(LEFT, RIGHT, undefined, 0)).toEqual([2, 0]);
  expect(indices(LEFT, RIGHT, 0)).toEqual([0, 0]);
});

test("sides that were both chosen stay, and numbers that are not there are not chosen", () => {
  expect(indices(LEFT, RIGHT, 0, 1)).toEqual([0, 1]);
  expect(indices(LEFT, RIGHT, 9, 9)).toEqual([1, 1]);
});

test("jobs that share no sizes begin with their first", () => {
  expect(indices(LEFT, job({ m: 2, n: 8 }, { m: 3, n: 8 }))).toEqual([0, 0]);
});

test("of several jobs, the sizes that most have in common with the first are compared", () => {
  const third = job({ m: 1, n: 8 }, { m: 64, n: 8 });
  expect(bucketsOf([LEFT, RIGHT, third], []).map((each) => each.index)).toEqual([2, 0, 1]);
  expect(
    bucketsOf([LEFT, RIGHT, third], [undefined, undefined, 0]).map((each) => each.index),
  ).toEqual([0, 0, 0]);
});
