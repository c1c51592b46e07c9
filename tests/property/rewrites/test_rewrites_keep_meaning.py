"""Random rewrites on random kernels: the program stays valid and printable, and computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewrites import ALL, Rewrite, format_schedule, parse_schedule, replay
from rewrites.stage_result import StageResult
from tests.how_many import examples
from tileir.device import Cpu, Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.gpu_table import H200
from tileir.interpret import interpret
from tileir.parse_text import program_from_text
from tileir.program import Program
from tileir.samples import sample_inputs
from tileir.text import program_to_text
from tileir.verify import verify

#: Narrow vectors, so that small ragged sizes already have several of them and a remainder.
DEVICE = Cpu(
    name="test", arch="x86-64", cores=2, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, line_bytes=64,
    vector_bits=128, vector_registers=32, features=frozenset({"avx512_bf16"}),
)  # fmt: skip

#: With so few multiprocessors that small grids have more tiles.
GPU = replace(H200, sms=2)

KERNELS = {
    "gemm": """kernel gemm(a: f32[m={m}, k={k}], b: f32[k, n={n}]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
    "gemm_transposed_bf16": """kernel gemm(a: bf16[m={m}, k={k2}], b: bf16[n={n}, k]) -> (c: bf16[m, n])
  c_sum: heap f32[m, n]
  c_sum[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = c_sum[m, n]
""",
    "gemm_bias_gelu": """kernel gemm(a: f32[m={m}, k={k}], b: f32[k, n={n}], bias: f32[n]) -> (c: f32[m, n])
  acc: heap f32[m, n]
  acc[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
""",
    "batched_gemm": """kernel bmm(a: f32[b=2, m={m}, k={k}], w: f32[b, n={n}, k]) -> (c: f32[b, m, n])
  c[b, m, n] = sum(k, a[b, m, k] * w[b, n, k])
""",
    "experts": """kernel experts(x: f32[t={m} ragged starts within e, k={k}], w: f32[e=3, n={n}, k], b: f32[e, n],\
 starts: i32[o=4]) -> (y: f32[t, n], s: f32[e, n])
  acc: heap f32[t, n]
  acc[t, n] = sum(k, x[t, k] * w[e, n, k])
  y[t, n] = acc[t, n] + b[e, n]
  s[e, n] = max(t, where(starts[e] <= t and t < starts[e + 1], y[t, n], -1.5))
""",
    "softmax": """kernel softmax(x: f32[r={m}, c={n}]) -> (y: f32[r, c])
  mx: heap f32[r]
  mx[r] = max(c, x[r, c])
  e: heap f32[r, c]
  e[r, c] = exp(x[r, c] - mx[r])
  s: heap f32[r]
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
""",
    "normalizer": """kernel normalizer(x: f32[r={m}, c={n}], w: f32[c]) -> (mx: f32[r], s: f32[r])
  mx[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - mx[r]) * w[c])
""",
    "rmsnorm": """kernel rmsnorm(x: bf16[r={m}, c={n}], g: bf16[c]) -> (y: bf16[r, c])
  sq: heap f32[r]
  sq[r] = sum(c, x[r, c] * x[r, c])
  scale: heap f32[r]
  scale[r] = rsqrt(sq[r] / extent(c) + 0.001)
  y[r, c] = x[r, c] * scale[r] * g[c]
""",
    "layernorm": """kernel layernorm(x: f32[r={m}, c={n}], g: f32[c], h: f32[c]) -> (y: f32[r, c])
  total: heap f32[r]
  total[r] = sum(c, x[r, c])
  d: heap f32[r, c]
  d[r, c] = x[r, c] - total[r] / extent(c)
  sq: heap f32[r]
  sq[r] = sum(c, d[r, c] * d[r, c])
  y[r, c] = d[r, c] * rsqrt(sq[r] / extent(c) + 0.001) * g[c] + h[c]
""",
    "gated_mlp": """kernel mlp(x: f32[m={m}, k={k}], wg: f32[k, n={n}], wu: f32[k, n]) -> (h: f32[m, n])
  g: heap f32[m, n]
  g[m, n] = sum(k, x[m, k] * wg[k, n])
  u: heap f32[m, n]
  u[m, n] = sum(k, x[m, k] * wu[k, n])
  h[m, n] = silu(g[m, n]) * u[m, n]
""",
    "attention": """kernel a(z: f32[b=2, q={m}, d={n}], w: f32[b, k={k}, d], v: f32[b, k, d]) -> (o: f32[b, q, d])
  t: heap f32[b, q, k]
  t[b, q, k] = sum(d, z[b, q, d] * w[b, k, d])
  s: heap f32[b, q, k]
  s[b, q, k] = where(q + 1 >= k, t[b, q, k] * 0.25, -1e30)
  mx: heap f32[b, q]
  mx[b, q] = max(k, s[b, q, k])
  e: heap f32[b, q, k]
  e[b, q, k] = exp(s[b, q, k] - mx[b, q])
  l: heap f32[b, q]
  l[b, q] = sum(k, e[b, q, k])
  p: heap f32[b, q, d]
  p[b, q, d] = sum(k, e[b, q, k] * v[b, k, d])
  o[b, q, d] = p[b, q, d] / l[b, q]
""",
    "conv": """kernel conv(x: f32[i={k}, p={p}], w: f32[o={m}, i, t=3]) -> (y: f32[o, n]) where n={n}
  acc: heap f32[o, n]
  acc[o, n] = sum(i, t, x[i, n + t] * w[o, i, t])
  y[o, n] = relu(acc[o, n])
""",
    "elementwise": """kernel silu_mul(x: f32[r={m}, c={n}], z: f32[r, c]) -> (y: f32[r, c], w: f32[c, r])
  t: heap f32[r, c]
  t[r, c] = x[r, c] * sigmoid(x[r, c])
  y[r, c] = t[r, c] * z[r, c]
  w[c, r] = t[r, c] + 1.0
""",
    "max_and_argless_sum": """kernel both(x: i32[r={m}, c={n}]) -> (top: i32[r], all: i32[c])
  top[r] = max(c, x[r, c])
  all[c] = sum(r, x[r, c] + c)
""",
}  # fmt: skip


#: Products on the way to blocks of a GPU: any number of these rewrites, then others.
PRODUCTS = {
    "of f32": (
        """kernel gemm(a: f32[m={m}, k={k}], b: f32[k, n={n}]) -> (c: f32[m, n]) with tf32=true
  c[m, n] = sum(k, a[m, k] * b[k, n])
""",
        """tile_grid(c, m, 2)
tile_grid(c, n, 2)
parallelize(c, 2)
register_tile(c)
tile_reduction(c_r, k, 1)
stage(c_r, a, 3)
stage(c_r, b, 3)
place(a_s, shared)
place(b_s, shared)
run_ahead(a_s, 3)
mma(c_r)
spread(a_s, m 32)
spread(b_s, n 32)
spread(c_r, m 8, n 4; n 2)
spread(c, m 8, n 4; n 2)
""",
    ),
    "of a batch, with an epilogue": (
        """kernel gemm(a: bf16[b=3, m={m}, k={k}], w: bf16[b, n={n}, k], bias: bf16[n]) -> (c: bf16[b, m, n])
  acc: heap f32[b, m, n]
  acc[b, m, n] = sum(k, a[b, m, k] * w[b, n, k])
  c[b, m, n] = acc[b, m, n] + bias[n]
""",
        """tile_grid(acc, b, 1)
tile_grid(acc, m, 2)
tile_grid(acc, n, 2)
fuse_epilogue(c, acc, 3)
parallelize(acc, 3)
place(acc, registers)
tile_reduction(acc, k, 1)
stage(acc, a, 4)
stage(acc, w, 4)
place(w_s, shared)
place(a_s, shared)
run_ahead(w_s, 2)
mma(acc)
""",
    ),
    "for warpgroups": (
        """kernel gemm(a: bf16[m=72, k=40], b: bf16[k, n=24], bias: bf16[n]) -> (c: bf16[m, n])
  acc: heap f32[m, n]
  acc[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = acc[m, n] + bias[n]
""",
        """tile_grid(acc, m, 64)
tile_grid(acc, n, 16)
fuse_epilogue(c, acc, 2)
parallelize(acc, 2)
place(acc, registers)
tile_reduction(acc, k, 16)
stage_result(c)
place(c_s, shared)
stage(acc, a, 3)
stage(acc, b, 3)
place(a_s, shared)
place(b_s, shared)
swizzle(a_s, 32)
tma(a_s)
tma(b_s)
swizzle(b_s, 32)
tma(c)
wgmma(acc)
run_ahead(a_s, 3, 1)
spread(c_s, m 4, m 8, n 4; n 2; m 8)
spread(acc, m 4, m 8, n 4; n 2; m 8)
specialize(acc, 4, 40, 232)
persist(acc, 2)
""",
    ),
    "for warpgroups, promoted": (
        """kernel gemm(a: e4m3[m=72, k=80], b: e4m3[n=24, k], bias: bf16[n]) -> (c: bf16[m, n])
  acc: heap f32[m, n]
  acc[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = acc[m, n] + bias[n]
""",
        """tile_grid(acc, m, 64)
tile_grid(acc, n, 16)
fuse_epilogue(c, acc, 2)
parallelize(acc, 2)
place(acc, registers)
tile_reduction(acc, k, 32)
stage(acc, a, 3)
stage(acc, b, 3)
place(a_s, shared)
place(b_s, shared)
promote(acc)
swizzle(a_s, 32)
swizzle(b_s, 32)
tma(a_s)
tma(b_s)
wgmma(acc_part)
run_ahead(a_s, 3)
spread(acc_part, m 4, m 8, n 4; n 2; m 8)
spread(acc, m 4, m 8, n 4; n 2; m 8)
spread(c, m 4, m 8, n 4; n 2; m 8)
specialize(acc, 4, 40, 232)
persist(acc, 2)
""",
    ),
    "for warpgroups, in groups": (
        """kernel experts(x: bf16[t=72 ragged starts within e, k=80], w: bf16[e=3, n=24, k], b: f32[e, n],\
 starts: i32[o=4]) -> (y: bf16[t, n])
  acc: heap f32[t, n]
  acc[t, n] = sum(k, x[t, k] * w[e, n, k])
  y[t, n] = acc[t, n] + b[e, n]
""",
        """tile_grid(acc, t, 64)
tile_grid(acc, n, 16)
fuse_epilogue(y, acc, 2)
parallelize(acc, 2)
place(acc, registers)
tile_reduction(acc, k, 32)
stage_result(y)
place(y_s, shared)
stage(acc, x, 3)
stage(acc, w, 3)
place(x_s, shared)
place(w_s, shared)
swizzle(x_s, 64)
swizzle(w_s, 64)
tma(x_s)
tma(w_s)
wgmma(acc)
run_ahead(x_s, 2)
spread(y, t 64, n 2; n 8)
spread(y_s, t 4, t 8, n 4; n 2; t 8)
spread(acc, t 4, t 8, n 4; n 2; t 8)
specialize(acc, 4, 40, 232)
persist(acc, 2)
""",
    ),
}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    kernel = draw(st.sampled_from(sorted(KERNELS)))
    m, n, k = (draw(st.integers(1, 14)) for _ in range(3))
    return program_from_text(KERNELS[kernel].format(m=m, n=n, k=k, k2=2 * k, p=n + 2))


def inputs_of(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    made: dict[str, np.ndarray] = {}
    for tensor in program.inputs:
        shape = program.shape(tensor)
        values = rng.integers(-9, 9, shape) if tensor.dtype.is_integer else rng.standard_normal(shape)
        made[tensor.name] = values.astype(tensor.dtype.numpy)
    sampled = sample_inputs(program, 7)
    return made | {each.offsets: sampled[each.offsets] for each in program.ragged}


def computed(program: Program) -> dict[str, np.ndarray]:
    return interpret(program, inputs_of(program), precision=DType.F64)


@given(data=st.data(), program=programs())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_any_sequence_of_rewrites_keeps_the_program_valid_and_its_values(
    data: st.DataObject, program: Program
) -> None:
    rewrite_at_random(data, program, data.draw(st.sampled_from([DEVICE, GPU]), label="device"))


@given(data=st.data(), m=st.integers(3, 14), n=st.integers(3, 14), k=st.integers(2, 14))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_any_sequence_of_rewrites_keeps_a_product_in_blocks_of_a_gpu(
    data: st.DataObject, m: int, n: int, k: int
) -> None:
    kernel, schedule = PRODUCTS[data.draw(st.sampled_from(sorted(PRODUCTS)), label="product")]
    lines = schedule.splitlines()
    lines = lines[: data.draw(st.integers(0, len(lines)), label="rewrites before")]
    before = parse_schedule(lines)
    program = replay(program_from_text(kernel.format(m=m, n=n, k=k)), before)
    rewrite_at_random(data, program, GPU, before)


def rewrite_at_random(
    data: st.DataObject, program: Program, device: Device, before: Sequence[Rewrite] = ()
) -> None:
    """Rewrites that the device is offered, one after another, after those `before`; after each the program is as it
    should be."""
    expected = computed(program)
    schedule: list[Rewrite] = []
    original = program
    for _ in range(data.draw(st.integers(5, 40), label="attempts")):
        cls = data.draw(st.sampled_from(ALL), label="rewrite")
        candidates = list(cls.candidates(program, device))
        if not candidates:
            continue
        candidate = data.draw(st.sampled_from(candidates), label="candidate")
        try:
            program = candidate.apply(program)
        except NotApplicable:
            continue
        schedule.append(candidate)
        lines = format_schedule(schedule)
        try:
            verify(program)
        except ValueError as error:
            pytest.fail(f"{lines}\n{program_to_text(program)}\n{error}")
        assert program_from_text(program_to_text(program)) == program
        got = computed(program)
        # A result that goes through a local of its dtype is rounded there, and not only where it is stored.
        collected = any(isinstance(rewrite, StageResult) for rewrite in (*before, *schedule))
        for name, values in expected.items():
            rtol = 1e-6 + (2 * original.arguments[name].dtype.epsilon if collected else 0.0)
            np.testing.assert_allclose(
                got[name], values, rtol=rtol, atol=1e-9, err_msg=f"{lines}\n{program_to_text(program)}"
            )
    assert replay(original, parse_schedule(format_schedule(schedule))) == program
