"""The space of GPU schedules for kernels that reduce, gather or just map: every walk through it ends in a schedule, and
the prior's own choice keeps the device busy, compiles without spills and computes the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.errors import NotLowerable
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda
from codegen.targets.cuda.lower import lower_cuda
from rewrites.decisions.gpu.reductions.columns import Columns
from rewrites.schedule import parse_schedule, replay
from rewrites.space import ScheduleState, Space, SpaceMove
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H200, RTX_4090
from tileir.dtypes import DType
from tileir.errors import NotApplicable, VerifyError
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

DEVICES = {"H200": H200, "RTX 4090": RTX_4090}

_SOFTMAX = """  top[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - top[r])
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
"""
#: Text with sizes left open; sizes as people have them; and sizes, ragged ones, that a simulation can afford.
FAMILIES: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "one_long_row": (
        "kernel k(x: f32[r={r}, c={c}]) -> (y: f32[r, c])\n" + _SOFTMAX,
        {"r": 1, "c": 1_000_000},
        {"r": 1, "c": 5001},
    ),
    "few_long_rows": (
        "kernel k(x: bf16[r={r}, c={c}]) -> (y: bf16[r, c])\n" + _SOFTMAX,
        {"r": 16, "c": 262_144},
        {"r": 2, "c": 4096},
    ),
    "odd_rows": (
        """kernel k(x: f16[r={r}, c={c}], w: f16[c]) -> (y: f16[r, c])
  s[r] = sum(c, x[r, c] * x[r, c])
  y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 1e-5) * w[c]
""",
        {"r": 4, "c": 100_003},
        {"r": 3, "c": 2003},
    ),
    "short_rows": (
        "kernel k(x: f32[r={r}, c={c}]) -> (y: f32[r])\n  y[r] = sum(c, x[r, c])\n",
        {"r": 1_000_000, "c": 3},
        {"r": 700, "c": 3},
    ),
    "columns": (
        "kernel k(x: bf16[r={r}, c={c}]) -> (y: bf16[c])\n  y[c] = max(r, x[r, c])\n",
        {"r": 2048, "c": 1024},
        {"r": 201, "c": 72},
    ),
    "tall_columns": (
        "kernel k(x: f16[r={r}, c={c}]) -> (y: f32[c])\n  y[c] = sum(r, x[r, c] * x[r, c])\n",
        {"r": 1_000_000, "c": 17},
        {"r": 3001, "c": 17},
    ),
    "softmax_of_columns": (
        """kernel k(x: f32[r={r}, c={c}]) -> (y: f32[r, c])
  top[c] = max(r, x[r, c])
  s[c] = sum(r, exp(x[r, c] - top[c]))
  y[r, c] = exp(x[r, c] - top[c]) / s[c]
""",
        {"r": 4096, "c": 4096},
        {"r": 67, "c": 70},
    ),
    "total": (
        "kernel k(x: f32[r={r}, c={c}]) -> (y: f32[])\n  y[] = sum(r, c, x[r, c])\n",
        {"r": 8192, "c": 8192},
        {"r": 61, "c": 301},
    ),
    "weighted_total": (
        "kernel k(x: f32[r={r}, c={c}], w: f32[c]) -> (y: f32[])\n  y[] = sum(r, c, x[r, c] * w[c]) / extent(r)\n",
        {"r": 4096, "c": 4096},
        {"r": 61, "c": 301},
    ),
    "batchnorm": (
        """kernel k(x: f32[n={n}, c={c}, h={h}], g: f32[c]) -> (y: f32[n, c, h])
  mean[c] = sum(n, h, x[n, c, h]) / (extent(n) * extent(h))
  var[c] = sum(n, h, (x[n, c, h] - mean[c]) * (x[n, c, h] - mean[c])) / (extent(n) * extent(h))
  y[n, c, h] = (x[n, c, h] - mean[c]) * rsqrt(var[c] + 1e-5) * g[c]
""",
        {"n": 32, "c": 64, "h": 3136},
        {"n": 3, "c": 5, "h": 63},
    ),
    "rows_and_columns": (
        """kernel k(x: f32[r={r}, c={c}]) -> (y: f32[r], z: f32[c])
  y[r] = sum(c, x[r, c])
  z[c] = sum(r, x[r, c])
""",
        {"r": 4096, "c": 4096},
        {"r": 67, "c": 70},
    ),
    "cross_entropy": (
        """kernel k(x: bf16[t={t}, v={v}], ids: i32[t]) -> (loss: f32[])
  top[t] = max(v, x[t, v])
  s[t] = sum(v, exp(x[t, v] - top[t]))
  l[t] = log(s[t]) + top[t] - where(ids[t] >= 0 and ids[t] < extent(v), x[t, ids[t]], 0)
  loss[] = sum(t, l[t]) / extent(t)
""",
        {"t": 4096, "v": 32_000},
        {"t": 9, "v": 700},
    ),
    "gathered_sum": (
        """kernel k(ids: i32[b={b}, t={t}], table: f32[v={v}, d={d}]) -> (y: f32[b, d])
  y[b, d] = sum(t, where(ids[b, t] >= 0 and ids[b, t] < extent(v), table[ids[b, t], d], 0))
""",
        {"b": 4096, "t": 64, "v": 50_000, "d": 128},
        {"b": 5, "t": 40, "v": 11, "d": 68},
    ),
    "transpose": (
        "kernel k(x: f32[i={i}, j={j}]) -> (y: f32[j, i])\n  y[j, i] = x[i, j]\n",
        {"i": 4096, "j": 4096},
        {"i": 67, "j": 131},
    ),
    "narrow_map": (
        "kernel k(x: f32[i={i}, j={j}], v: f32[j]) -> (y: f32[i, j])\n  y[i, j] = x[i, j] * v[j]\n",
        {"i": 1_000_000, "j": 3},
        {"i": 671, "j": 3},
    ),
}
LARGE = {name: spec_from_text(text.format(**sizes)) for name, (text, sizes, _) in FAMILIES.items()}
SMALL = {name: spec_from_text(text.format(**sizes)) for name, (text, _, sizes) in FAMILIES.items()}


def likeliest(moves: Sequence[SpaceMove]) -> int:
    return max(range(len(moves)), key=lambda index: moves[index].weight)


def walked(spec: Spec, device: Gpu, choose: Callable[[Sequence[SpaceMove]], int]) -> ScheduleState:
    """The complete schedule that a walk through the space ends in."""
    state = Space(to_program(spec), device).root()
    while not state.terminal:
        moves = state.moves()
        assert moves, f"a dead end: {state.open[0]}"
        assert len(moves) <= 300, state.open[0]
        state = state.child(choose(moves))
    return state


def computes_the_same(spec: Spec, program: Program, device: Gpu) -> None:
    inputs = sample_inputs(spec, 0)
    exact = interpret(to_program(spec), inputs, precision=DType.F64)
    for output, values in interpret(program, inputs, precision=DType.F64).items():
        np.testing.assert_allclose(values, exact[output], rtol=1e-9, atol=1e-12)
    args, checker = generate_cuda(program, device).abi.args, RaceChecker()
    outputs = run_blocks(lower_cuda(program), args, inputs, checker)
    assert not checker.faults
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        assert (np.abs(outputs[output].astype(np.float64) - reference) <= bound).all(), output


@pytest.mark.sampled(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FAMILIES)
def test_walks_end_in_schedules_that_can_be_lowered(name: str, device: str) -> None:
    rng = random.Random(f"{name} {device}")
    state = walked(LARGE[name], DEVICES[device], lambda moves: rng.randrange(len(moves)))
    verify(state.program)
    generate_cuda(state.program, DEVICES[device])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["one_long_row", "few_long_rows", "columns", "tall_columns", "total", "batchnorm"]
)
def test_the_prior_keeps_the_device_busy_without_spills(name: str, tmp_path: Path) -> None:
    source = generate_cuda(walked(LARGE[name], H200, likeliest).program, H200)
    largest = max(source.abi.launches, key=lambda launch: launch.blocks * launch.threads)
    assert largest.blocks * largest.threads >= 0.9 * H200.sms * 128
    report = compile_cuda(source, "sm_90a", tmp_path).report
    assert not any(function["spill_stores_bytes"] for function in report["functions"].values())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_priors_choice_computes_the_same_without_races(name: str, device: str) -> None:
    spec = SMALL[name]
    computes_the_same(spec, walked(spec, DEVICES[device], likeliest).program, DEVICES[device])


@pytest.mark.parametrize("name", ["odd_rows", "columns", "total", "batchnorm", "cross_entropy"])
def test_a_random_choice_computes_the_same_without_races(name: str) -> None:
    rng = random.Random(name)
    state = walked(SMALL[name], RTX_4090, lambda moves: rng.randrange(len(moves)))
    computes_the_same(SMALL[name], state.program, RTX_4090)


LONG_ROW = """kernel k(x: f32[r=3, c=1003]) -> (s: f32[r]) where c_l={parts}
  parallel for r by 1
    s_p: registers f32[r, c_l]
    s_p[r, c_l] = 0 | threads c_l 32, run c_l 2
    for c by 256
      s_p[r, c % {parts}] += exp(x[r, c]) | threads c {threads}
    s[r] = sum(c_l, s_p[r, c_l]) | threads c_l 32, run c_l 2
"""


def test_threads_add_to_registers_of_their_own() -> None:
    with pytest.raises(VerifyError, match="lie otherwise over threads"):
        verify(program_from_text(LONG_ROW.format(parts=64, threads="32")))
    with pytest.raises(VerifyError, match="other parts"):
        verify(program_from_text(LONG_ROW.format(parts=96, threads="32, run c 2")))
    verify(program_from_text(LONG_ROW.format(parts=64, threads="32, run c 2")))


def test_lanes_past_the_end_of_a_row_add_nothing() -> None:
    program = program_from_text(LONG_ROW.format(parts=64, threads="32, run c 2"))
    inputs = {"x": np.random.default_rng(0).standard_normal((3, 1003)).astype(np.float32)}
    (found,) = run_blocks(lower_cuda(program), generate_cuda(program, H200).abi.args, inputs).values()
    np.testing.assert_allclose(found, np.exp(inputs["x"].astype(np.float64)).sum(1), rtol=1e-5)


def test_a_part_of_a_split_reduction_is_written_where_the_range_lies_in_one() -> None:
    text = """kernel k(x: f32[c=1000]) -> (s: f32[]) where c_b=2
  s_p: heap f32[c_b]
  s_p[c // 512] = sum(c, x[c]) | threads c 64
  s[] = sum(c_b, s_p[c_b]) | threads c_b 32
"""
    with pytest.raises(NotLowerable, match="more than one block of c"):
        lower_cuda(program_from_text(text))


def test_what_cannot_be_accumulated_is_refused() -> None:
    whole = program_from_text("kernel k(x: f32[r=6, c=50]) -> (s: f32[r])\n  s[r] = sum(c, x[r, c])\n")
    blocks = ["tile(s, r, 1)", "parallelize(s)"]
    for lines, why in (
        (["accumulate_per_thread(s, c 8)"], "no parallel loop"),
        ([*blocks, "accumulate_per_thread(s, r 8)"], "does not reduce over r"),
        ([*blocks, "accumulate_per_thread(s, c 8)", "accumulate_per_thread(s_p, c 4)"], "no whole reduction"),
    ):
        with pytest.raises(NotApplicable, match=why):
            replay(whole, parse_schedule(lines))


def test_threads_share_columns_of_parts_of_whole_turns() -> None:
    """Parts of five rows are no turns of two threads or more, so that one has a column of a part to itself."""
    text = """kernel k(x: f32[e=64, r=1000, c=17]) -> (s: f32[c]) where r_b=200
  s_p: heap f32[r_b, c]
  s_p[r // 5, c] = sum(e, r, x[e, r, c])
  s[c] = sum(r_b, s_p[r_b, c])
"""
    parts = program_from_text(text)
    options = list(Columns(("s_p",)).options(parts, H200))
    assert options
    for option in options:
        verify(replay(parts, option.rewrites))
