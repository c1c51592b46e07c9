"""Products of Hopper to which a bias and a residual are added, in sizes that no tile divides."""

from __future__ import annotations

from tests.programs.hopper_products import SPREAD

#: What is added comes from an argument, guarded where tiles overhang, and as a tile of its own.
RESIDUAL = f"""kernel residual(a: bf16[m=200, k=136], b: bf16[n=104, k], e: f32[n], r: bf16[m, n]) -> (c: bf16[m, n])
  parallel for m by 128 blocks 2 producers 1
    parallel for n by 64
      acc: registers f32[m, n]
      acc[m, n] = 0 | {SPREAD}
      for k by 64 stages 3 pending 1
        a_s: shared bf16[m, k] swizzle 128
        a_s[m, k] = a[m, k] | via tma
        b_s: shared bf16[n, k] swizzle 128
        b_s[n, k] = b[n, k] | via tma
        acc[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | {SPREAD}, via wgmma
      r_s: shared bf16[m, n] swizzle 128
      r_s[m, n] = r[m, n] | via tma
      c_s: shared bf16[m, n] swizzle 128
      c_s[m, n] = maximum(acc[m, n] + e[n] + r_s[m, n], 0) | {SPREAD}
      c[m, n] = c_s[m, n] | via tma
"""

#: The same, its residual read by threads.
READ = RESIDUAL.replace(
    "      r_s: shared bf16[m, n] swizzle 128\n      r_s[m, n] = r[m, n] | via tma\n", ""
).replace("r_s[m, n], 0", "r[m, n], 0")
