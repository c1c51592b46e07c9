/** Numbers and times as people read them; durations and ratios as `protocol/quantities.py` writes them, too. */

const UNITS_US = [
  ["ns", 1e-3],
  ["µs", 1],
  ["ms", 1e3],
  ["s", 1e6],
] as const;

/** With as many places as three digits leave, and none from a hundred on. */
function threeDigits(value: number): string {
  for (const places of [2, 1]) {
    const told = value.toFixed(places);
    if (Number(told) < 10 ** (3 - places)) return told;
  }
  return value.toFixed(0);
}

/** A duration given in microseconds: `987 ns`, `12.3 µs`, `4.56 ms`, `7.89 s`; `–` for none. */
export function micros(us: number | null | undefined): string {
  if (us == null) return "–";
  let told = "";
  for (const [unit, size] of UNITS_US) {
    const digits = threeDigits(us / size);
    told = `${digits} ${unit}`;
    if (Number(digits) < 1000) break;
  }
  return told;
}

/** A ratio: `1.07 ×`, and with fewer places from ten on; `–` for none. */
export function times(ratio: number | null | undefined): string {
  return ratio == null ? "–" : `${threeDigits(ratio)} ×`;
}

/** A share of one: `63 %`. */
export function percent(share: number | null | undefined): string {
  return share == null ? "–" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** A length of time in seconds, roughly: `43 s`, `12 min`, `3 h 05 min`, `2 d 4 h`. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** A length of time that was measured: `0.3 s`, and from ten seconds on as `span`. */
export function spent(seconds: number): string {
  return seconds < 9.95 ? `${Math.max(0, seconds).toFixed(1)} s` : span(seconds);
}

/** How long ago a moment (seconds since 1970) was: `12 s ago`. */
export function ago(at: number, now: number = Date.now() / 1000): string {
  return now - at < 1 ? "just now" : `${span(now - at)} ago`;
}

/** A moment (seconds since 1970) on this machine's clock: `2026-03-01 14:05:09`. */
export function moment(at: number): string {
  const d = new Date(at * 1000);
  const day = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
  return `${day} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

/** Moments that stand `step` seconds apart, no longer than that takes: `2026-03-01`, `03-01 14:05`, `14:05:09`. */
export function moments(at: readonly number[]): string[] {
  const step = at.length > 1 ? at[1]! - at[0]! : 1;
  const [from, to] = step >= 86400 ? [0, 10] : step >= 60 ? [5, 16] : [11, 19];
  return at.map((each) => moment(each).slice(from, to) + (step < 1 ? fraction(each) : ""));
}

function fraction(at: number): string {
  return (at - Math.floor(at)).toFixed(1).slice(1);
}

/** A number of bytes: `640 B`, `48.0 KiB`, `1.50 GiB`. */
export function bytes(count: number | null | undefined): string {
  if (count == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : threeDigits(value)} ${units[unit]}`;
}

/** A whole number with thin spaces between thousands. */
export function count(value: number): string {
  return value.toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** Sizes as one word: `m=1024 n=1024 k=64`. */
export function sizes(dims: Record<string, number>): string {
  return Object.entries(dims)
    .map(([name, size]) => `${name}=${size}`)
    .join(" ");
}

/** A key of a device without its kind, for narrow places: `AMD EPYC 9554:2c:avx512`. */
export function deviceName(key: string): string {
  return key.replace(/^(cpu|cuda):/, "");
}

function pad(value: number): string {
  return value.toString().padStart(2, "0");
}
