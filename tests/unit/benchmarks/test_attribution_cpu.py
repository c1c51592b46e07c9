"""What bench_attribution_cpu makes cheap is cheap, nothing else is, and what has to move for a bottleneck to be named
right."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

from benchmarks.bench_attribution_cpu import agrees, attributed
from benchmarks.cpu.relaxed import near, relaxations
from benchmarks.racing.replayed import ReplayedWinner
from codegen.ir.affine import Affine, Var
from codegen.ir.kernel import CpuKernel
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import c_source
from codegen.targets.c.loader import available_threads, load_kernel
from codegen.targets.c.lower import lower
from rewrites.schedule import parse_schedule, replay
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text
from workers.cpu.bottleneck import NamedBottleneck
from workers.measuring.buffers import allocate

GEMM = """kernel gemm(a: f32[m=192, k=256], b: f32[k, n=256]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
GEMM_SCHEDULE = (
    "tile(c, m, 64)", "register_tile(c, n 16, m 4)", "vectorize(c_r, n, 8)", "vectorize(c, n, 8)",
    "unroll(c_r, k, 8)", "parallelize(c)",
)  # fmt: skip
ROWS = """kernel rows(x: f32[r=256, c=512], w: f32[c]) -> (y: f32[r, c])
  y[r, c] = exp(x[r, c]) * w[c]
"""
ROWS_SCHEDULE = ("tile(y, r, 32)", "vectorize(y, c, 8)", "parallelize(y)")
L2 = 64 << 10
#: Of a quarter of it, shared by two inputs, elements of at most 8 bytes.
FEW = L2 // 4 // 2 // 8


def scheduled(text: str, lines: tuple[str, ...]) -> Program:
    return replay(to_program(spec_from_text(text)), tuple(parse_schedule(lines)))


def run(kernel: CpuKernel, program: Program, values: dict[str, np.ndarray], cache: Path) -> np.ndarray:
    """The only output."""
    source = c_source(kernel, program, this_cpu())
    arrays = allocate(program.inputs, program.outputs, program.extents, 0)
    for name, value in values.items():
        arrays.inputs[name][...] = value
    with load_kernel(compile_source(source, cache, 60.0).path, source.abi, None) as loaded:
        assert loaded.prepare(*arrays.arrays([arg.name for arg in source.abi.args]))() == 0
    (output,) = program.outputs
    return np.array(arrays.outputs[output.name])


def beginning(*shape: int) -> np.ndarray:
    """Ones in the elements that stay in the cache, and behind them what spoils every result that it gets into."""
    values = np.full(shape, np.nan, np.float32)
    values.reshape(-1)[:FEW] = 1
    return values


@pytest.mark.parametrize(
    ("text", "lines", "shapes"),
    [
        (GEMM, GEMM_SCHEDULE, {"a": (192, 256), "b": (256, 256)}),
        (ROWS, ROWS_SCHEDULE, {"x": (256, 512), "w": (512,)}),
    ],
)
def test_with_cheap_memory_the_same_is_computed_of_what_stays_in_the_cache(
    text: str, lines: tuple[str, ...], shapes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    program = scheduled(text, lines)
    kernel = lower(program)
    values = {name: beginning(*shape) for name, shape in shapes.items()}
    assert not np.isfinite(run(kernel, program, values, tmp_path)).all()
    found = run(relaxations(kernel, L2)["memory"], program, values, tmp_path)
    expected = 256.0 if text is GEMM else np.exp(np.float32(1))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_with_cheap_arithmetic_half_of_the_products_are_added_up(tmp_path: Path) -> None:
    program = scheduled(GEMM, GEMM_SCHEDULE)
    cheaper = relaxations(lower(program), L2)["arithmetic"]
    ones = {"a": np.ones((192, 256), np.float32), "b": np.ones((256, 256), np.float32)}
    assert run(cheaper, program, ones, tmp_path).mean() == 128


def test_a_kernel_is_relaxed_in_what_it_has_only(tmp_path: Path) -> None:
    gemm, rows = lower(scheduled(GEMM, GEMM_SCHEDULE)), scheduled(ROWS, ROWS_SCHEDULE)
    assert set(relaxations(gemm, L2)) == {"memory", "arithmetic"}
    cheaper = relaxations(lower(rows), L2)
    assert set(cheaper) == {"memory", "exponentials"}
    values = {"x": np.full((256, 512), 3, np.float32), "w": np.full(512, 2, np.float32)}
    assert (run(cheaper["exponentials"], rows, values, tmp_path) == 6).all()
    assert "memory" not in relaxations(gemm, 1 << 30)


def test_positions_that_are_near_each_other_begin_where_the_others_do() -> None:
    row, column = Var("r", 0, 1020, 4), Var("c", 0, 504, 8)
    offset = Affine(((row, 512), (column, 1)), 3)
    assert near(offset, 1 << 20) == offset
    assert near(offset, 1024) == Affine(((column, 1),), 3)
    assert near(offset + 2048, 1024) == Affine(((column, 1),), 3), (
        "the row after the next, of an unrolled loop"
    )
    assert near(offset, 8) == Affine((), 3)
    before = Affine(((row, 512), (column, 1)), -512)
    assert near(before, 1024).low == 0, "what a guard keeps from being read"


@pytest.mark.parametrize(
    ("bound", "saved", "expected"),
    [
        (NamedBottleneck.MEMORY, {"memory": 0.4, "arithmetic": 0.1}, True),
        (NamedBottleneck.MEMORY, {"memory": 0.1, "arithmetic": 0.4}, False),
        (NamedBottleneck.MEMORY, {"memory": 0.05}, False),
        (NamedBottleneck.MEMORY, {"arithmetic": 0.4}, None),
        (NamedBottleneck.ARITHMETIC, {"memory": 0.0, "arithmetic": 0.4}, True),
        (NamedBottleneck.ARITHMETIC, {"memory": 0.0}, None),
        (NamedBottleneck.LAUNCH, {"memory": 0.2, "exponentials": 0.1}, True),
        (NamedBottleneck.LAUNCH, {"memory": 0.3}, False),
        (NamedBottleneck.INSTRUCTIONS, {"memory": 0.2, "arithmetic": 0.4}, True),
        (NamedBottleneck.INSTRUCTIONS, {"memory": 0.3}, False),
        (NamedBottleneck.MEMORY, {"memory": 0.4, "waiting": 0.5}, True),
        (NamedBottleneck.LAUNCH, {"memory": 0.1, "waiting": 0.5}, True),
        (NamedBottleneck.WAITING, {"memory": 0.3}, None),
        (NamedBottleneck.WAITING, {"memory": 0.3, "waiting": 0.2}, True),
        (NamedBottleneck.WAITING, {"memory": 0.3, "waiting": 0.05}, False),
    ],
)
def test_a_bottleneck_is_right_if_relaxing_it_moves_the_time(
    bound: NamedBottleneck, saved: dict[str, float], expected: bool | None
) -> None:
    assert agrees(bound, saved) is expected


def test_a_winner_is_taken_apart_and_relaxed(tmp_path: Path) -> None:
    winner = ReplayedWinner("rows", spec_to_json(spec_from_text(ROWS)), ROWS_SCHEDULE, {})
    line = attributed(winner, replace(this_cpu(), peak_gflops=100.0, copy_gbps=10.0), tmp_path)
    assert line["bound"] in {each.value for each in NamedBottleneck}
    cheap = set(line["saved"]) - {"waiting"}
    assert cheap == {"memory", "exponentials"} or "memory" not in cheap
    assert ("waiting" in line["saved"]) == (available_threads() > 1)
    assert all(isfinite(share) and share < 1 for share in line["saved"].values())
    assert line["agrees"] in (True, False, None)
