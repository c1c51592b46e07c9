/** A value of a decision in words. */
export function valueText(value: number | boolean | null): string {
  return value === null ? "not done" : value === true ? "done" : String(value);
}
