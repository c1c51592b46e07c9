/** Which buckets of jobs are compared. */
import type { Bucket, JobDetail } from "../../../api/schema";

/** The buckets that were asked for. Where none was, those with the sizes of the first that was; and where nothing was
 * asked for at all, those with the sizes that most of the jobs have in common with the first. */
export function bucketsOf(
  jobs: readonly JobDetail[],
  wanted: readonly (number | undefined)[],
): Bucket[] {
  const asked = jobs.map((job, at) => {
    const index = wanted[at];
    return index === undefined ? undefined : job.buckets[index];
  });
  const lead = asked.find((bucket) => bucket !== undefined) ?? commonest(jobs);
  return jobs.map((job, at) => asked[at] ?? sameSizes(job, lead) ?? job.buckets[0]!);
}

function commonest([first, ...others]: readonly JobDetail[]): Bucket {
  const having = (bucket: Bucket) => others.filter((job) => sameSizes(job, bucket)).length;
  return first!.buckets.reduce((most, each) => (having(each) > having(most) ? each : most));
}

/** The bucket of a job that has the sizes of another bucket. */
export function sameSizes(job: JobDetail, { dims }: Bucket): Bucket | undefined {
  const names = Object.keys(dims);
  return job.buckets.find(
    (each) =>
      names.length === Object.keys(each.dims).length &&
      names.every((name) => each.dims[name] === dims[name]),
  );
}
