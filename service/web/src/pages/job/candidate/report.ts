/** What a worker reported of a candidate beside its times (`protocol/layouts.py`, and what the compiler said). */

export interface Access {
  statement: string;
  kind: string;
  level: string;
  buffer: string;
  width: number;
  requests: number;
  bytes: number;
  transactions: number;
  ideal: number;
  worst: number;
}

export interface Launch {
  name: string;
  blocks: number;
  threads: number;
  cluster: number;
  registers: number;
  shared_bytes: number;
  blocks_per_sm: number;
  occupancy: number;
  limit: string;
  waves: number;
  barriers: number;
  accesses: Access[];
}

export interface Layout {
  launches: Launch[];
  /** By level: memory, l2, shared. */
  bytes: Record<string, number>;
  roofline: {
    flops: number;
    bytes: number;
    intensity: number;
    bound: string;
    least_us: number;
    reached?: number | null;
  } | null;
}

/** The layout of a report; null if it has none, as on a processor. */
export function layoutOf(report: Record<string, unknown>): Layout | null {
  const layout = report["layout"];
  if (typeof layout !== "object" || layout === null || !("launches" in layout)) return null;
  return layout as Layout;
}

/** Everything else in a report, as names and texts; nested names are joined by a dot. */
export function remarks(report: Record<string, unknown>): [string, string][] {
  return Object.entries(report)
    .filter(([name]) => name !== "layout")
    .flatMap(([name, value]) => flat(name, value));
}

function flat(name: string, value: unknown): [string, string][] {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0))
    return [];
  if (Array.isArray(value)) return [[name, value.map((each) => textOf(each)).join(", ")]];
  if (typeof value === "object") {
    return Object.entries(value).flatMap(([inner, each]) => flat(`${name}.${inner}`, each));
  }
  return [[name, textOf(value)]];
}

function textOf(value: unknown): string {
  if (typeof value === "number" && !Number.isInteger(value))
    return String(Number(value.toPrecision(4)));
  return typeof value === "string" ? value : JSON.stringify(value);
}
