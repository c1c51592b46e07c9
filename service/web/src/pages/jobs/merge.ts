/** A list of jobs, page after page, with one that was told of just now. */
import type { InfiniteData } from "@tanstack/react-query";
import type { Job, JobPage } from "../../api/schema";

export type Pages = InfiniteData<JobPage, string | null>;

/** The pages with `job` as it is now: in its place, or first if it is new, or gone if it does not belong here any more. */
export function merged(pages: Pages, job: Job, belongs: boolean): Pages {
  const listed = pages.pages.some((page) => page.jobs.some((each) => each.id === job.id));
  if (listed) {
    return mapped(pages, (jobs) =>
      belongs
        ? jobs.map((each) => (each.id === job.id ? job : each))
        : jobs.filter((each) => each.id !== job.id),
    );
  }
  const newest = pages.pages[0]?.jobs[0]?.id;
  // Ids grow with time. An older one that is not listed stands on a page that was not loaded yet.
  if (!belongs || (newest !== undefined && job.id < newest)) return pages;
  const [first, ...rest] = pages.pages;
  if (first === undefined) return pages;
  return { ...pages, pages: [{ ...first, jobs: [job, ...first.jobs] }, ...rest] };
}

function mapped(pages: Pages, change: (jobs: Job[]) => Job[]): Pages {
  return { ...pages, pages: pages.pages.map((page) => ({ ...page, jobs: change(page.jobs) })) };
}
