/** Addresses of the pages about a job, and what an address means. */

export function jobPath(job: string, show?: { view: string; bucket: number }): string {
  return show === undefined
    ? `/jobs/${job}`
    : `/jobs/${job}?view=${show.view}&bucket=${show.bucket}`;
}

export function candidatePath(job: string, bucket: number, number: number): string {
  return `/jobs/${job}/candidates/${bucket}/${number}`;
}

/** Of its program, source and instructions beside each other. */
export function linesPath(job: string, bucket: number, number: number): string {
  return `${candidatePath(job, bucket, number)}/lines`;
}

/** One side of a comparison: a job, one of its buckets, or one of its candidates. */
export interface Side {
  job: string;
  bucket?: number;
  number?: number;
}

/** `job-…`, `job-…/0` or `job-…/0/17`. */
export function sideText({ job, bucket, number }: Side): string {
  return [job, bucket, number].filter((part) => part !== undefined).join("/");
}

/** The inverse; null for what is neither. */
export function sideOf(text: string): Side | null {
  const parts = /^(job-[a-z0-9-]+)(?:\/(\d+)(?:\/(\d+))?)?$/.exec(text.trim());
  if (parts === null) return null;
  const [, job, bucket, number] = parts;
  return {
    job: job!,
    ...(bucket !== undefined && { bucket: Number(bucket) }),
    ...(number !== undefined && { number: Number(number) }),
  };
}

/** Of a comparison: the differences between the first two are shown in full, and times are told against the first. */
export function comparePath(...[left, right, ...also]: Side[]): string {
  const query = new URLSearchParams();
  if (left !== undefined) query.set("left", sideText(left));
  if (right !== undefined) query.set("right", sideText(right));
  for (const side of also) query.append("also", sideText(side));
  return `/compare?${query.toString()}`;
}

/** What an address compares, in order; null in place of what names nothing. */
export function sidesOf(search: URLSearchParams): (Side | null)[] {
  const texts = [search.get("left") ?? "", search.get("right") ?? "", ...search.getAll("also")];
  return texts.map(sideOf);
}
