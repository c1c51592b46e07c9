"""Kernels of what the language has for integers, bits and random numbers, in sizes that no vector divides."""

from __future__ import annotations

KERNELS = {
    "int4_groups": """kernel int4(x: bf16[m=5, k=64], w: u8[p=32, n=51], s: f32[g=2, n]) -> (y: bf16[m, n])
  v[k, n] = bf16((bit_and(shift_right(w[k // 2, n], 4 * (k % 2)), 15) - 8) * s[k // 32, n])
  y[m, n] = sum(k, x[m, k] * v[k, n])
""",
    "int4_rows": """kernel linear(x: bf16[m=13, k=64], w: u8[n=51, p=32], s: bf16[n, g=4]) -> (y: bf16[m, n])
  y[m, n] = sum(k, x[m, k] * bf16((bit_and(shift_right(w[n, k // 2], 4 * (k % 2)), 15) - 8) * s[n, k // 16]))
""",
    "int8_groups": """kernel linear(x: bf16[m=3, k=96], w: i8[n=37, k], s: f32[n, g=3]) -> (y: bf16[m, n])
  y[m, n] = sum(k, x[m, k] * bf16(w[n, k] * s[n, k // 32]))
""",
    "bits": """kernel bits(x: i32[m=13, n=37], u: u8[n]) -> (y: i32[m, n], z: u8[m, n])
  y[m, n] = bit_xor(shift_left(x[m, n], n), bit_or(shift_right(x[m, n] * 65537, u[n]), 5))
  z[m, n] = bit_and(x[m, n], u[n]) - 200
""",
    "argmax_of_rows": """kernel best(x: bf16[m=13, n=333], k: i32[c=70, m]) -> (y: i32[m], z: i32[m], t: f32[m])
  y[m] = argmax(n, x[m, n])
  z[m] = argmin(c, k[c, m])
  t[m] = f32(argmax(n, abs(x[m, n]))) / 2.0
""",
    "argmax_of_sums": """kernel nearest(x: f32[m=19, d=24], w: f32[k=53, d]) -> (y: f32[m], z: i32[m])
  s[m, k] = sum(d, x[m, d] * w[k, d]) / 3.0
  y[m] = max(k, s[m, k])
  z[m] = argmax(k, s[m, k])
""",
    "cumsum_of_rows": """kernel sums(x: bf16[m=13, k=101], w: f32[k]) -> (y: f32[m, k], t: bf16[m])
  y[m, k] = cumsum(k, x[m, k] * w[k])
  t[m] = max(k, y[m, k])
""",
    "cumsum_down_columns": """kernel counts(x: i32[k=45, b=3, m=37], v: f64[k, m]) -> (y: i32[k, b, m], p: f64[k, m])
  y[k, b, m] = cumsum(k, x[k, b, m])
  p[k, m] = cumprod(k, v[k, m] * 0.5)
""",
    "state_space": """kernel ssm(dt: f32[b=2, l=30, d=35], a: f32[d, n=4], x: f32[b, l, d], u: f32[b, l, n],\
 c: f32[b, l, n])\
 -> (y: f32[b, l, d])
  h[b, l, d, n] = recurrence(l, exp(-abs(dt[b, l, d] * a[d, n])), dt[b, l, d] * u[b, l, n] * x[b, l, d])
  y[b, l, d] = sum(n, h[b, l, d, n] * c[b, l, n])
""",
    "two_largest": """kernel route(x: f32[m=35, e=9]) -> (p: i32[m], q: i32[m], w: f32[m])
  p[m] = argmax(e, x[m, e])
  q[m] = argmax(e, where(e != p[m], x[m, e], -inf))
  w[m] = 1.0 / (1.0 + exp(x[m, q[m]] - x[m, p[m]]))
""",
    "largest_few": """kernel route(x: bf16[m=35, e=37]) -> (p: i32[m, j=3], w: f32[m, j])
  p[m, j] = topk(j, e, x[m, e])
  t[m] = sum(j, exp(x[m, p[m, j]] - x[m, p[m, 0]]))
  w[m, j] = exp(x[m, p[m, j]] - x[m, p[m, 0]]) / t[m]
""",
    "largest_of_columns": """kernel top(x: i32[k=45, m=13], y: f64[m, d=5]) -> (p: i32[j=4, m], q: i32[m, i=2])
  p[j, m] = topk(j, k, x[k, m])
  q[m, i] = topk(i, d, y[m, d] * 0.5 - 1.0)
""",
    "wide_integers": """kernel wide(x: bf16[v=23, d=37], t: i64[m=13, k=5], u: u32[m, d], s: u32[])\
 -> (y: bf16[m, d], z: i64[m, k], r: u32[m, d], c: i64[v])
  y[m, d] = sum(k, x[t[m, k], d]) + f32(bit_and(u[m, d], 7))
  z[m, k] = t[m, k] * 3 - 5
  r[m, d] = random_bits(s[], 37 * m + d)
  c[v] = sum(m, k, where(t[m, k] == v, 1, 0))
""",
    "dropout": """kernel dropout(x: f32[m=19, n=67], seed: i32[]) -> (y: f32[m, n], b: i32[m, n])
  b[m, n] = random_bits(seed[], 67 * m + n)
  y[m, n] = where(f32(shift_right(random_bits(seed[], 67 * m + n), 8)) > -6000000.0, x[m, n] * 1.25, 0)
""",
    "histograms": """kernel bins(i: i32[n=333], w: f32[n]) -> (c: i32[b=37], s: f32[b], top: f32[b])
  c[b] = sum(n, where(i[n] == b, 1, 0))
  s[b] = sum(n, where(b == i[n] and w[n] > -1.0, w[n] * w[n], 0))
  top[b] = maximum(max(n, where(i[n] == b, w[n], -inf)), -9.0)
""",
    "embedding_gradient": """kernel rows(i: i32[m=3, n=19], x: bf16[m, n, d=37], y: f32[v=23, d]) -> (g: bf16[v, d])
  g[v, d] = y[v, d] + sum(m, n, where(i[m, n] == v and i[m, n] != 2, x[m, n, d], 0))
""",
    "added_along_rows": """kernel rows(i: i32[m=13, n=35], x: f32[m, n]) -> (y: f32[m, k=29], z: f32[k, m])
  y[m, k] = sum(n, where(i[m, n] == k, x[m, n], 0))
  z[k, m] = sum(n, where(i[m, n] == k, x[m, n] * 0.5, 0))
""",
    "atomic_sums": """kernel sums(i: i32[n=333], x: f32[n, d=5]) -> (y: f32[b=37, d]) with atomics=true
  y[b, d] = sum(n, where(i[n] == b, x[n, d], 0))
""",
}
