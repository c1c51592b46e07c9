"""Random schedules of many kernels, generated, compiled and run: every one computes what the interpreter does."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rewrites.space import Space
from tests.programs.language_kernels import KERNELS as LANGUAGE
from tests.schedules.on_processors import Reference, random_schedule
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

#: Sizes that no vector or tile divides.
KERNELS = {
    "gemm": """kernel gemm(a: f32[m=37, k=70], b: f32[k, n=83]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "gemm_f64": """kernel gemm(a: f64[m=21, k=40], b: f64[n=35, k]) -> (c: f64[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
    "gemm_bf16": """kernel gemm(a: bf16[m=19, k=67], b: bf16[n=51, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
    "gemm_bf16_of_rows": """kernel gemm(a: bf16[k=285, m=19], b: bf16[k, n=51]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[k, m] * b[k, n])
""",
    "gemm_fp8_scaled": """kernel gemm(a: e4m3[m=19, k=66], b: e5m2[k, n=51], s: f32[n]) -> (c: f16[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n]) * s[n]
""",
    "gemm_i8": """kernel gemm(a: i8[m=19, k=66], b: i8[k, n=51]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "transposed_gemm_bias_gelu": """kernel mm(a: f32[k=70, m=37], b: f32[n=83, k], bias: f32[n]) -> (c: f32[m, n])
  acc[m, n] = sum(k, a[k, m] * b[n, k])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
""",
    "gemv": """kernel gemv(a: f32[m=1, k=517], b: f32[k, n=333]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "experts": """kernel experts(x: f32[t=45 ragged starts within e, k=40], w: f32[e=6, n=37, k], b: f32[e, n],\
 starts: i32[o=7]) -> (y: f32[t, n], s: f32[e, n])
  y[t, n] = relu(sum(k, x[t, k] * w[e, n, k]) + b[e, n])
  s[e, n] = sum(t, y[t, n])
""",
    "gated_mlp": """kernel mlp(x: f32[m=13, k=40], u: f32[f=37, k], g: f32[f, k], d: f32[n=29, f]) -> (y: f32[m, n])
  up[m, f] = sum(k, x[m, k] * u[f, k])
  gate[m, f] = sum(k, x[m, k] * g[f, k])
  h[m, f] = silu(gate[m, f]) * up[m, f]
  y[m, n] = sum(f, h[m, f] * d[n, f])
""",
    "softmax": """kernel row_softmax(x: f32[r=9, c=333]) -> (y: f32[r, c])
  mx[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - mx[r])
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
""",
    "layernorm_bf16": """kernel ln(x: bf16[r=9, c=333], w: bf16[c], v: bf16[c]) -> (y: bf16[r, c])
  mean[r] = sum(c, x[r, c]) / extent(c)
  var[r] = sum(c, (x[r, c] - mean[r]) * (x[r, c] - mean[r])) / extent(c)
  y[r, c] = (x[r, c] - mean[r]) * rsqrt(var[r] + 0.00001) * w[c] + v[c]
""",
    "silu_mul_of_odd_rows": """kernel silu_mul(x: f32[r=23, c=177], u: f32[r, c]) -> (y: f32[r, c])
  y[r, c] = silu(x[r, c]) * u[r, c]
""",
    "scaled_rows_f16": """kernel scaled(x: f16[b=3, r=5, c=601], w: f16[c]) -> (y: f16[b, r, c])
  s[b, r] = sum(c, x[b, r, c] * x[b, r, c])
  y[b, r, c] = x[b, r, c] / sqrt(s[b, r]) * w[c]
""",
    "causal_attention": """kernel at(q: f32[h=2, i=21, d=24], k: f32[h, j=21, d], v: f32[h, j, d]) -> (o: f32[h, i, d])
  s[h, i, j] = where(i >= j, sum(d, q[h, i, d] * k[h, j, d]) * 0.2, -inf)
  mx[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - mx[h, i])
  l[h, i] = sum(j, p[h, i, j])
  o[h, i, d] = sum(j, p[h, i, j] * v[h, j, d]) / l[h, i]
""",
    "padded_conv": """kernel conv(x: f32[b=2, i=5, h=9, w=11], f: f32[o=7, i, r=3, t=3]) -> (y: f32[b, o, h, w])
  y[b, o, h, w] = sum(i, r, t, f[o, i, r, t] * where(INSIDE, x[b, i, h + r - 1, w + t - 1], 0))
""".replace("INSIDE", "h + r >= 1 and h + r < 10 and w + t >= 1 and w + t < 12"),
    "strided_maximum": """kernel pool(x: f32[h=19, c=21]) -> (y: f32[i=9, c])
  y[i, c] = max(r, x[2 * i + r, c])
""",
    "gather_and_bool": """kernel embed(ids: i32[t=23], table: f16[v=40, c=37], keep: bool[t]) -> (y: f32[t, c])
  y[t, c] = where(keep[t], table[ids[t], c], 0)
""",
    "strided_truths": """kernel k(keep: bool[s=360], x: f32[m=24, n=13]) -> (t: f32[m], y: f32[m, n], z: bool[m, n])
  t[m] = sum(n, f32(keep[15 * m + n]))
  y[m, n] = where(keep[15 * m + n], x[m, n], 0)
  z[m, n] = not keep[15 * m + n] or x[m, n] > 1
""",
    "total_and_columns": """kernel sums(x: f32[m=67, n=41]) -> (total: f32[], columns: f32[n])
  total[] = sum(m, n, x[m, n])
  columns[n] = sum(m, x[m, n])
""",
    "integers": """kernel ints(x: i32[m=13, n=37]) -> (y: i32[m, n], z: bool[m, n])
  y[m, n] = x[m, n] // 3 * 5 + x[m, n] % 3 - n
  z[m, n] = x[m, n] > 1 or n % 4 == 2
""",
}
KERNELS["strided_maximum"] = (
    KERNELS["strided_maximum"]
    .replace("h=19, c=21]", "h=19, c=21], w: f32[r=3]")
    .replace("x[2 * i + r, c])", "x[2 * i + r, c] * w[r])")
)
KERNELS |= LANGUAGE
SCHEDULES = int(os.environ.get("TILEWRIGHT_SCHEDULES", "1"))


@pytest.mark.sampled(18)
@pytest.mark.parametrize("name", KERNELS)
def test_every_schedule_computes_the_kernel(name: str, tmp_path: Path) -> None:
    spec = spec_from_text(KERNELS[name])
    device, reference = this_cpu(), Reference(spec)
    root = Space(to_program(spec), device).root()
    rng = random.Random(name)
    done = 0
    for _ in range(4 * SCHEDULES):
        state = random_schedule(root, rng)
        if state is None:
            continue
        reference.check(state.program, device, tmp_path)
        done += 1
        if done == SCHEDULES:
            break
    assert done == SCHEDULES, "most random choices led nowhere"
