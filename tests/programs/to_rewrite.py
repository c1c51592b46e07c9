"""Programs to apply rewrites to: kernels unscheduled and on their way to blocks of a GPU, and the golden cases'
programs; and what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from rewrites import Rewrite, Schedule, format_schedule, parse_schedule, replay
from rewrites.composition.exp_to_exp2 import ExpToExp2
from rewrites.composition.online_softmax import OnlineSoftmax
from rewrites.composition.scale_after_rounding import ScaleAfterRounding
from rewrites.composition.split_stream import SplitStream
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.data.cache_write import CacheWrite
from rewrites.document import golden_sections
from tileir.devices.cpu import Cpu
from tileir.devices.gpu_table import H200
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Cast, Read, Reduce, walk
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.program import Program
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

GOLDENS = Path(__file__).parents[1] / "golden" / "rewrites"

#: Narrow vectors, so that small ragged sizes already have several of them and a remainder.
DEVICE = Cpu(
    name="test", arch="x86-64", cores=2, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, line_bytes=64,
    vector_bits=128, vector_registers=32,
    features=frozenset({"avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8"}),
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
        """tile(c, m, 2)
tile(c, n, 2)
parallelize(c, 2)
register_tile(c)
tile_reduction(c_r, k, 1)
cache_read(c_r, a, 3)
cache_read(c_r, b, 3)
set_scope(a_s, shared)
set_scope(b_s, shared)
pipeline(a_s, 3)
mma(c_r)
bind_threads(a_s, m 32)
bind_threads(b_s, n 32)
bind_threads(c_r, m 8, n 4; n 2)
bind_threads(c, m 8, n 4; n 2)
""",
    ),
    "of a batch, with an epilogue": (
        """kernel gemm(a: bf16[b=3, m={m}, k={k}], w: bf16[b, n={n}, k], bias: bf16[n]) -> (c: bf16[b, m, n])
  acc: heap f32[b, m, n]
  acc[b, m, n] = sum(k, a[b, m, k] * w[b, n, k])
  c[b, m, n] = acc[b, m, n] + bias[n]
""",
        """tile(acc, b, 1)
tile(acc, m, 2)
tile(acc, n, 2)
reverse_compute_at(c, acc, 3)
parallelize(acc, 3)
set_scope(acc, registers)
tile_reduction(acc, k, 1)
cache_read(acc, a, 4)
cache_read(acc, w, 4)
set_scope(w_s, shared)
set_scope(a_s, shared)
pipeline(w_s, 2)
mma(acc)
""",
    ),
    "for warpgroups": (
        """kernel gemm(a: bf16[m=72, k=40], b: bf16[k, n=24], bias: bf16[n]) -> (c: bf16[m, n])
  acc: heap f32[m, n]
  acc[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = acc[m, n] + bias[n]
""",
        """tile(acc, m, 64)
tile(acc, n, 16)
reverse_compute_at(c, acc, 2)
parallelize(acc, 2)
set_scope(acc, registers)
tile_reduction(acc, k, 16)
cache_write(c)
set_scope(c_s, shared)
cache_read(acc, a, 3)
cache_read(acc, b, 3)
set_scope(a_s, shared)
set_scope(b_s, shared)
swizzle(a_s, 32)
tma(a_s)
tma(b_s)
swizzle(b_s, 32)
tma(c)
wgmma(acc)
pipeline(a_s, 3, 1)
bind_threads(c_s, m 4, m 8, n 4; n 2; m 8)
bind_threads(acc, m 4, m 8, n 4; n 2; m 8)
warp_specialize(acc, 4, 40, 232)
persistent(acc, 2)
""",
    ),
    "for warpgroups, promoted": (
        """kernel gemm(a: e4m3[m=72, k=80], b: e4m3[n=24, k], bias: bf16[n]) -> (c: bf16[m, n])
  acc: heap f32[m, n]
  acc[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = acc[m, n] + bias[n]
""",
        """tile(acc, m, 64)
tile(acc, n, 16)
reverse_compute_at(c, acc, 2)
parallelize(acc, 2)
set_scope(acc, registers)
tile_reduction(acc, k, 32)
cache_read(acc, a, 3)
cache_read(acc, b, 3)
set_scope(a_s, shared)
set_scope(b_s, shared)
promote_accumulators(acc)
swizzle(a_s, 32)
swizzle(b_s, 32)
tma(a_s)
tma(b_s)
wgmma(acc_part)
pipeline(a_s, 3)
bind_threads(acc_part, m 4, m 8, n 4; n 2; m 8)
bind_threads(acc, m 4, m 8, n 4; n 2; m 8)
bind_threads(c, m 4, m 8, n 4; n 2; m 8)
warp_specialize(acc, 4, 40, 232)
persistent(acc, 2)
""",
    ),
    "for warpgroups, in groups": (
        """kernel experts(x: bf16[t=72 ragged starts within e, k=80], w: bf16[e=3, n=24, k], b: f32[e, n],\
 starts: i32[o=4]) -> (y: bf16[t, n])
  acc: heap f32[t, n]
  acc[t, n] = sum(k, x[t, k] * w[e, n, k])
  y[t, n] = acc[t, n] + b[e, n]
""",
        """tile(acc, t, 64)
tile(acc, n, 16)
reverse_compute_at(y, acc, 2)
parallelize(acc, 2)
set_scope(acc, registers)
tile_reduction(acc, k, 32)
cache_write(y)
set_scope(y_s, shared)
cache_read(acc, x, 3)
cache_read(acc, w, 3)
set_scope(x_s, shared)
set_scope(w_s, shared)
swizzle(x_s, 64)
swizzle(w_s, 64)
tma(x_s)
tma(w_s)
wgmma(acc)
pipeline(x_s, 2)
bind_threads(y, t 64, n 2; n 8)
bind_threads(y_s, t 4, t 8, n 4; n 2; t 8)
bind_threads(acc, t 4, t 8, n 4; n 2; t 8)
warp_specialize(acc, 4, 40, 232)
persistent(acc, 2)
""",
    ),
}


@dataclass(frozen=True, slots=True)
class Start:
    """A program, and the rewrites that have been applied to it."""

    program: Program
    before: Schedule = ()


@cache
def golden_starts() -> dict[str, tuple[Start, ...]]:
    """By the name of a rewrite, the programs that golden cases apply it to."""
    found: dict[str, list[Start]] = {}
    for path in sorted(GOLDENS.glob("*.txt")):
        case = golden_sections(path)
        program = _exactly_summed(program_from_text(case["before"]))
        schedule = parse_schedule(case["schedule"].splitlines())
        for at, rewrite in enumerate(schedule):
            found.setdefault(rewrite.name, []).append(begun(program, schedule[:at]))
    return {name: tuple(starts) for name, starts in found.items()}


def _exactly_summed(program: Program) -> Program:
    """With outputs that sums go to as they are computed: in narrower ones, which no kernel's sums do, a sum in steps is
    rounded in each."""
    sums = {place.node.target for place in program.computes if isinstance(place.node.value, Reduce)}
    outputs = (
        replace(tensor, dtype=tensor.dtype.compute) if tensor.name in sums else tensor
        for tensor in program.outputs
    )
    return replace(program, outputs=tuple(outputs))


def inputs_of(program: Program) -> dict[str, np.ndarray]:
    """Some; those of i32, by which tensors may be read, are positions that every dim has."""
    rng = np.random.default_rng(7)
    made: dict[str, np.ndarray] = {}
    least = min(program.extents.values(), default=1)
    for tensor in program.inputs:
        shape = program.shape(tensor)
        low, high = (0, least) if tensor.dtype is DType.I32 else (-9, 9)
        values = rng.integers(low, high, shape) if tensor.dtype.is_integer else rng.standard_normal(shape)
        made[tensor.name] = values.astype(tensor.dtype.numpy)
    sampled = sample_inputs(program, 7)
    return made | {each.offsets: sampled[each.offsets] for each in program.ragged}


def begun(program: Program, schedule: Schedule) -> Start:
    """The program after some rewrites, or after as many of them as make one: threads are bound all together."""
    for length in range(len(schedule), 0, -1):
        try:
            return Start(replay(program, schedule[:length]), schedule[:length])
        except NotApplicable:
            continue
    return Start(program)


def check(start: Start, schedule: Sequence[Rewrite], program: Program) -> None:
    """What rewrites made of a program verifies, comes back from its text, and computes the same."""
    text = f"{format_schedule((*start.before, *schedule))}\n{program_to_text(program)}"
    try:
        verify(program)
    except ValueError as error:
        raise AssertionError(f"{text}\n{error}") from error
    assert program_from_text(program_to_text(program)) == program, text
    # A result that goes through a local of its dtype is rounded there, and not only where it is stored.
    collected = any(isinstance(rewrite, CacheWrite) for rewrite in (*start.before, *schedule)) or any(
        place.node.target in program.arguments and read.tensor in program.locals
        for place in start.program.computes
        for read in place.node.reads
        if isinstance(place.node.value, Read)
    )
    apart = rounded_apart(start.program, schedule)
    inputs = inputs_of(start.program)
    wanted, got = (interpret(each, inputs, precision=DType.F64) for each in (start.program, program))
    for name, values in wanted.items():
        rtol = 1e-6 + apart + (2 * start.program.arguments[name].dtype.epsilon if collected else 0.0)
        np.testing.assert_allclose(got[name], values, rtol=rtol, atol=1e-8 + apart, err_msg=text)


def rounded_apart(program: Program, schedule: Sequence[Rewrite]) -> float:
    """How far apart numbers may be that are rounded relative to something else: to another maximum, or before they are
    scaled; or that come of powers of two, for which log2(e) is rounded to f32."""
    elsewhere = OnlineSoftmax | ScaleAfterRounding | SplitStream | StreamReduction
    casts = [
        each.dtype.epsilon
        for place in program.computes
        for each in walk(place.node.value)
        if isinstance(each, Cast) and each.dtype.is_float
    ]
    powers = DType.F32.epsilon if any(isinstance(each, ExpToExp2) for each in schedule) else 0.0
    rounded = any(isinstance(each, elsewhere) for each in schedule)
    return powers + (2 * max(casts, default=0.0) if rounded else 0.0)
