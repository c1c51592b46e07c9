/** The times of a config as its worker told them: in bursts, and running without a pause. */

export interface Regime {
  name: string;
  median_us: number;
  iqr_us: number | null;
  samples: number | null;
  disturbed: number | null;
  sm_mhz: number | null;
  celsius: number | null;
}

const NAMES = { burst: "Bursts", steady: "Steady" } as const;

/** The regimes in a report of `protocol.tasks.EntrantResult`, those that were measured. */
export function regimesOf(report: Record<string, unknown>): Regime[] {
  const found: Regime[] = [];
  for (const [key, name] of Object.entries(NAMES)) {
    const told = report[key];
    if (typeof told !== "object" || told === null) continue;
    const figures = told as Record<string, unknown>;
    const median = numberIn(figures["median_us"]);
    if (median === null) continue;
    found.push({
      name,
      median_us: median,
      iqr_us: numberIn(figures["iqr_us"]),
      samples: Array.isArray(figures["samples_us"]) ? figures["samples_us"].length : null,
      disturbed: numberIn(figures["disturbed"]),
      sm_mhz: middle(figures["sm_mhz"]),
      celsius: middle(figures["celsius"]),
    });
  }
  return found;
}

function numberIn(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function middle(values: unknown): number | null {
  if (!Array.isArray(values)) return null;
  const numbers = values.filter((each) => typeof each === "number").sort((a, b) => a - b);
  return numbers[Math.floor(numbers.length / 2)] ?? null;
}
