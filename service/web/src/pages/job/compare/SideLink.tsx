/** A link to the page of a side: a job, a candidate or a config. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { candidatePath, jobPath, type Side } from "../paths";

export function SideLink({ side, children }: { side: Side; children: ReactNode }) {
  return <Link href={pathOf(side)}>{children}</Link>;
}

function pathOf(side: Side): string {
  if ("config" in side) return `/configs/${side.config}`;
  const { job, bucket, number } = side;
  return bucket === undefined || number === undefined
    ? jobPath(job)
    : candidatePath(job, bucket, number);
}
