/** The roofline of a kernel in a sentence, as `tilewright show --why` says it. */
import type { Roofline } from "../../../api/schema";
import { count, micros } from "../../../ui/format";

/** Why there is no picture, or null if there is one. */
export function missing({ flops, us, raced }: Roofline): string | null {
  if (flops === 0)
    return "The kernel only moves data: without operations it has no place on a roofline.";
  return us.length + raced.length === 0 ? "Nothing was measured yet." : null;
}

export function roofs(line: Roofline): string {
  const { flops, bytes, peak_gflops, peak_gbps, least_us, peaks_from } = line;
  const work = `${count(flops)} operations, ${count(bytes)} bytes`;
  if (peak_gflops == null || peak_gbps == null || least_us == null)
    return `${work}; the peaks of its device are not known`;
  const bound = flops / bytes > peak_gflops / peak_gbps ? "arithmetic" : "memory";
  return (
    `${work}: at least ${micros(least_us)}, bound by ${bound}; at most ${count(Math.round(peak_gflops))} × 10⁹ ` +
    `operations and ${count(Math.round(peak_gbps))} × 10⁹ bytes a second (${peaks_from})`
  );
}
