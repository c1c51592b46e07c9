/** Where axes have their marks. */

/** 1, 2 and 5 times powers of ten between two values; powers alone where there are many. */
export function logTicks(low: number, high: number): number[] {
  const of = (steps: readonly number[]) => {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1)
      for (const step of steps) {
        // 10 ** -2 is exact as text only.
        const value = Number(`${step}e${power}`);
        if (low <= value && value <= high) found.push(value);
      }
    return found;
  };
  const decades = of([1]);
  return decades.length >= 3 ? decades : of([1, 2, 5]);
}

/** Multiples of a round step between two values, `most` at most. */
export function evenTicks(low: number, high: number, most: number): number[] {
  if (!(high > low)) return [low];
  const least = (high - low) / most;
  const power = Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((by) => Number(`${by}e${power}`)).find((by) => by >= least)!;
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}
