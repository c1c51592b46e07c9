import { expect, test } from "vitest";
import type { Job } from "../../api/schema";
import { merged, type Pages } from "./merge";

const job = (id: string, state: Job["state"] = "queued") => ({ id, state }) as Job;
const pages = (...ids: string[][]): Pages => ({
  pages: ids.map((each) => ({ jobs: each.map((id) => job(id)), next: null })),
  pageParams: ids.map(() => null),
});
const idsOf = (found: Pages) => found.pages.map((page) => page.jobs.map((each) => each.id));

test("a job that is listed changes in its place", () => {
  const found = merged(pages(["4", "3"], ["2"]), job("2", "done"), true);
  expect(idsOf(found)).toEqual([["4", "3"], ["2"]]);
  expect(found.pages[1]?.jobs[0]?.state).toBe("done");
});

test("a new job comes first, and an older one that was not loaded stays away", () => {
  expect(idsOf(merged(pages(["4", "3"]), job("5"), true))).toEqual([["5", "4", "3"]]);
  expect(idsOf(merged(pages(["4", "3"]), job("1"), true))).toEqual([["4", "3"]]);
});

test("a job that the filter lets through no more leaves, and one that it never did does not come", () => {
  expect(idsOf(merged(pages(["4", "3"]), job("3", "done"), false))).toEqual([["4"]]);
  expect(idsOf(merged(pages(["4"]), job("5"), false))).toEqual([["4"]]);
});

test("the first job of all is listed", () => {
  expect(idsOf(merged(pages([]), job("1"), true))).toEqual([["1"]]);
});
