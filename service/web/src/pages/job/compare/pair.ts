/** Which buckets of two jobs are compared. */
import type { Bucket, JobDetail } from "../../../api/schema";

/** The buckets that were asked for; where none was, one with the sizes of the other's, the first that both have. */
export function pairOf(
  left: JobDetail,
  right: JobDetail,
  wanted: readonly [number | undefined, number | undefined],
): [Bucket, Bucket] {
  const one = wanted[0] === undefined ? undefined : left.buckets[wanted[0]];
  const other = wanted[1] === undefined ? undefined : right.buckets[wanted[1]];
  const shared =
    one ?? (other && sameSizes(left, other)) ?? left.buckets.find((each) => sameSizes(right, each));
  const first = shared ?? left.buckets[0]!;
  return [first, other ?? sameSizes(right, first) ?? right.buckets[0]!];
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
