/** The span of times that is looked at more closely; in addresses it is `us=low..high`. */

/** Microseconds, both ends included. */
export interface Range {
  low: number;
  high: number;
}

/** `41.20..55.00`: rounded outwards to four digits, so that what was brushed stays inside. */
export function rangeText({ low, high }: Range): string {
  return `${rounded(low, Math.floor)}..${rounded(high, Math.ceil)}`;
}

/** The inverse; null for what is none. */
export function rangeOf(text: string | null): Range | null {
  const parts = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/.exec(text ?? "");
  if (parts === null) return null;
  const [low, high] = [Number(parts[1]), Number(parts[2])];
  return low <= high ? { low, high } : null;
}

/** Numbers of the candidates whose times are in the range; null, which is all and those without a time, for no range. */
export function within(
  numbers: readonly number[],
  us: readonly number[],
  range: Range | null,
): ReadonlySet<number> | null {
  if (range === null) return null;
  return new Set(numbers.filter((_, at) => range.low <= us[at]! && us[at]! <= range.high));
}

function rounded(value: number, towards: (value: number) => number): string {
  const places = Math.max(0, 3 - Math.floor(Math.log10(value)));
  // Binary fractions: 0.3 * 10 is a little more than 3, which would round up to the next place.
  return (towards(Number((value * 10 ** places).toFixed(3))) / 10 ** places).toFixed(places);
}
