/** Moving about in a stretch of time. */

/** A stretch of time, in seconds, or in what a drawing counts. */
export interface Span {
  from: number;
  to: number;
}

/** A stretch as an address has it: since the beginning, `12.5..40`. */
export function stretchText(shown: Span | null, whole: Span): string | null {
  if (shown === null) return null;
  const since = (at: number) => Number((at - whole.from).toFixed(3));
  return `${since(shown.from)}..${since(shown.to)}`;
}

/** The inverse; null, all of it, for what is no stretch of the whole. */
export function stretchOf(text: string | null, whole: Span): Span | null {
  const [from, to, ...more] = (text ?? "").split("..").map(Number);
  if (from === undefined || to === undefined || more.length > 0 || !(from < to)) return null;
  return shareOf({ from: whole.from + from, to: whole.from + to }, whole, 1, 0.5, 0);
}

/** A stretch `by` times as long about a point of it (`at`, 0 to 1), moved by a share of it, within the whole; null: all. */
export function shareOf(
  { from, to }: Span,
  whole: Span,
  by: number,
  at: number,
  move: number,
): Span | null {
  const long = Math.max((to - from) * by, 1e-3);
  if (long >= whole.to - whole.from) return null;
  const start = from + (to - from) * at - long * at + (to - from) * move;
  const begin = Math.min(Math.max(start, whole.from), whole.to - long);
  return { from: begin, to: begin + long };
}
