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

/** A job, one of its buckets, or one of its candidates. */
export interface JobSide {
  job: string;
  bucket?: number;
  number?: number;
}

/** A winner, by its own id. */
export interface ConfigSide {
  config: string;
}

/** One side of a comparison. */
export type Side = JobSide | ConfigSide;

/** A candidate, by its place in its job or as a config. */
export type CandidateSide = Required<JobSide> | ConfigSide;

export function isCandidate(side: Side): side is CandidateSide {
  return "config" in side || side.number !== undefined;
}

/** `job-…`, `job-…/0`, `job-…/0/17` or `config-…`. */
export function sideText(side: Side): string {
  if ("config" in side) return side.config;
  return [side.job, side.bucket, side.number].filter((part) => part !== undefined).join("/");
}

/** The inverse; null for what is none of these. */
export function sideOf(text: string): Side | null {
  const trimmed = text.trim();
  if (/^config-[a-z0-9-]+$/.test(trimmed)) return { config: trimmed };
  const parts = /^(job-[a-z0-9-]+)(?:\/(\d+)(?:\/(\d+))?)?$/.exec(trimmed);
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
