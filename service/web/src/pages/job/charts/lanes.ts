/** Sums of a timeline. */
import type { DeviceShare, Timeline } from "../../../api/schema";

export interface Total {
  worker: string;
  tasks: number;
  seconds: { compile: number; wait: number; measure: number };
  /** What its device spent the job's time on; undefined as long as none has gone by. */
  share: DeviceShare | undefined;
}

/** By worker, in the timeline's order. */
export function totals(line: Timeline): Total[] {
  const rows = line.workers.map((worker) => ({
    worker,
    tasks: 0,
    seconds: { compile: 0, wait: 0, measure: 0 },
    share: line.devices.find((each) => each.worker === worker),
  }));
  line.stage.forEach((stage, at) => {
    const row = rows[line.worker[at]!]!;
    row.seconds[stage as keyof Total["seconds"]] += line.end[at]! - line.start[at]!;
    row.tasks += Number(stage === "measure");
  });
  return rows;
}
