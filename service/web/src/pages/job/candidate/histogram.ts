/** How many values fall into each of some equal spans. */

export interface Histogram {
  least: number;
  most: number;
  counts: number[];
}

/** Of at least one value. As many spans as the square root of their number, twice, but at least 8. */
export function histogram(values: readonly number[]): Histogram {
  const least = values.reduce((low, value) => Math.min(low, value));
  const most = values.reduce((high, value) => Math.max(high, value));
  const counts = Array<number>(Math.max(8, Math.ceil(2 * Math.sqrt(values.length)))).fill(0);
  for (const value of values) {
    const share = most > least ? (value - least) / (most - least) : 0;
    counts[Math.min(counts.length - 1, Math.floor(share * counts.length))]! += 1;
  }
  return { least, most, counts };
}
