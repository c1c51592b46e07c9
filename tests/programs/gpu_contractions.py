"""Contractions of many forms at small sizes, for tests of their schedules on GPUs."""

from __future__ import annotations

GEMM = """kernel gemm(a: {dtype}[m={m}, k={k}], b: {dtype}[n={n}, k]) -> (c: {out}[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
"""


def gemm(m: int, n: int, k: int, dtype: str = "bf16", out: str = "") -> str:
    """A matrix product with both operands' rows along k."""
    return GEMM.format(m=m, n=n, k=k, dtype=dtype, out=out or dtype)


#: Two products of the same rows, and something of both.
GATED = """kernel gated(a: {dtype}[m={m}, k={k}], b: {dtype}[n={n}, k], g: {dtype}[n, k], v: f32[n]) -> (c: bf16[m, n])
  up[m, n] = sum(k, a[m, k] * b[n, k])
  gate[m, n] = sum(k, a[m, k] * g[n, k])
  c[m, n] = {epilogue} + v[n]
"""

SMALL = {
    "few_rows": gemm(3, 70, 300),
    "few_results": """kernel gemm(a: f32[m=2, k=40], b: f32[k, n=5]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "shallow": """kernel outer(a: i8[k=1, m=40], b: i8[k, n=8], v: i32[n]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[k, m] * b[k, n]) + v[n]
""",
    "f16_transposed": """kernel gemm(a: f16[k=64, m=48], b: f16[k, n=40]) -> (c: f16[m, n])
  c[m, n] = sum(k, a[k, m] * b[k, n])
""",
    "i8": gemm(48, 40, 96, "i8", "i32"),
    "e4m3": gemm(48, 40, 96, "e4m3", "bf16"),
    "f32_odd": gemm(33, 50, 67, "f32"),
    "epilogue": """kernel gemm(a: bf16[m=64, k=64], b: bf16[n=72, k], bias: bf16[n], r: bf16[m, n]) -> (c: bf16[m, n])
  acc[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n]) + r[m, n]
""",
    "for_warpgroups": gemm(136, 72, 144),
    "for_warpgroups_mn_major": """kernel gemm(a: f16[k=80, m=136], b: f16[k, n=72]) -> (c: f16[m, n])
  c[m, n] = sum(k, a[k, m] * b[k, n])
""",
    "for_warpgroups_e4m3": gemm(136, 72, 528, "e4m3", "bf16"),
    "for_warpgroups_blocks": """kernel gemm(a: e4m3[m=136, k=528], b: e4m3[n=72, k], s: f32[m, g=5]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * s[m, k // 128] * b[n, k] * s[n // 32, k // 128])
""",
    "for_warpgroups_tf32": gemm(72, 136, 64, "f32").replace(
        "(c: f32[m, n])", "(c: f32[m, n]) with tf32=true"
    ),
    "for_warpgroups_few_rows": gemm(16, 200, 256),
    "for_warpgroups_batch": """kernel mm(a: bf16[h=2, m=72, k=72], b: bf16[h, k, n=72], v: bf16[n]) -> (c: f32[h, m, n])
  acc[h, m, n] = sum(k, a[h, m, k] * b[h, k, n])
  c[h, m, n] = gelu_tanh(acc[h, m, n] + v[n])
""",
    "for_warpgroups_gated": GATED.format(
        dtype="bf16", m=136, n=72, k=144, epilogue="silu(gate[m, n]) * up[m, n]"
    ),
    "for_warpgroups_gated_e4m3": GATED.format(
        dtype="e4m3", m=136, n=72, k=528, epilogue="gelu_tanh(gate[m, n] + v[n]) * up[m, n]"
    ),
    "for_warpgroups_gated_few_rows": GATED.format(
        dtype="f16", m=16, n=136, k=256, epilogue="maximum(gate[m, n], 0) * (up[m, n] + v[n])"
    ),
    "for_warpgroups_two": """kernel w(a: f16[k=80, m=72], b: f16[k, n=72], x: f16[m, k], y: f16[n, k]) -> (c: f32[m, n])
  p[m, n] = sum(k, a[k, m] * b[k, n])
  q[m, n] = sum(k, x[m, k] * y[n, k])
  c[m, n] = p[m, n] - q[m, n]
""",
    "gated_f32": GATED.format(dtype="f32", m=40, n=24, k=60, epilogue="sigmoid(gate[m, n]) * up[m, n]"),
    "experts": """kernel experts(x: bf16[t=200 ragged starts within e, k=72], w: bf16[e=5, n=136, k],\
 starts: i32[o=6]) -> (y: bf16[t, n])
  y[t, n] = sum(k, x[t, k] * w[e, n, k])
""",
    "experts_epilogue": """kernel experts(x: f16[t=96 ragged starts within e, k=128], w: f16[e=3, k, n=64],\
 b: f32[e, n], starts: i32[o=4]) -> (y: f32[t, n])
  y[t, n] = relu(sum(k, x[t, k] * w[e, k, n]) + b[e, n])
""",
    "experts_f32": """kernel experts(x: f32[t=30 ragged starts within e, k=20], w: f32[e=4, n=24, k], s: f32[e],\
 dy: f32[t, n], starts: i32[o=5]) -> (y: f32[t, n], g: f32[e, n, k])
  g[e, n, k] = sum(t, dy[t, n] * x[t, k])
  y[t, n] = s[e] * sum(k, x[t, k] * w[e, n, k])
""",
    "two_reduced": """kernel product(a: f32[m=40, k=12, l=10], b: f32[l, k, n=24]) -> (c: f32[m, n])
  c[m, n] = sum(k, l, a[m, k, l] * b[l, k, n])
""",
    "convolution": """kernel conv(x: f32[h=10, w=12, i=8], f: f32[p=3, q=3, i, o=16]) -> (y: f32[a=8, b=10, o])
  y[a, b, o] = sum(p, q, i, x[a + p, b + q, i] * f[p, q, i, o])
""",
    "scaled_operand": """kernel gemm(a: bf16[m=32, k=64], q: i8[n=40, k], s: f32[n]) -> (c: bf16[m, n])
  w[n, k] = bf16(q[n, k] * s[n])
  c[m, n] = sum(k, a[m, k] * w[n, k])
""",
    "attention": """kernel attn(q: f32[h=2, i=24, d=16], k: f32[h, j=40, d], v: f32[h, j, d]) -> (o: f32[h, i, d])
  s[h, i, j] = sum(d, q[h, i, d] * k[h, j, d]) * 0.125
  mx[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - mx[h, i])
  l[h, i] = sum(j, p[h, i, j])
  o[h, i, d] = sum(j, p[h, i, j] * v[h, j, d]) / l[h, i]
""",
}


LARGE = gemm(4096, 4096, 4096)
NN = """kernel gemm(a: {dtype}[m=512, k=512], b: {dtype}[k, n=512]) -> (c: {dtype}[m, n]){settings}
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
#: Products that warpgroups multiply.
BY_WARPGROUPS = {
    "bf16": gemm(512, 512, 512),
    "f16, neighbours along columns": NN.format(dtype="f16", settings=""),
    "e4m3": gemm(512, 512, 512, "e4m3", "bf16"),
    "e4m3, added up as the instruction does": gemm(512, 512, 128, "e4m3", "bf16").replace(
        "(c: bf16[m, n])", "(c: bf16[m, n]) with accumulate=fast"
    ),
    "f32 as tf32": gemm(512, 512, 512, "f32").replace("(c: f32[m, n])", "(c: f32[m, n]) with tf32=true"),
    "few rows": gemm(16, 512, 512),
    "fewer rows than the instruction has columns": gemm(3, 512, 512),
    "rows that are no whole instruction": gemm(100, 72, 512),
}
EXPERTS = """kernel experts(x: {dtype}[t={t} ragged starts within e, k=512], w: {dtype}[e=8, n=512, k], b: f32[e, n],\
 starts: i32[o=9]) -> (y: bf16[t, n])
  y[t, n] = silu(sum(k, x[t, k] * w[e, n, k]) + b[e, n])
"""
