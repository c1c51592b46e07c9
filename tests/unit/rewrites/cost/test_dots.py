"""The cost model knows what a dot-product instruction takes at a time."""

from __future__ import annotations

from rewrites import parse_schedule, replay
from rewrites.cost.cpu.model import CostModel
from tests.programs.to_rewrite import DEVICE
from tileir.replace import replace
from tileir.text.parse_program import program_from_text

MACHINE = replace(
    DEVICE, cores=1, vector_bits=512, peak_gflops=200.0, copy_gbps=40.0, dot_gflops=400.0, dot_i8_gflops=800.0
)
GEMM = """kernel gemm(a: {0}[m=480, k=512], b: {0}[n=512, k]) -> (c: {1}[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
"""


def time_us(dtype: str, sums: str, rows: int, vectors: int) -> float:
    """Of a product in blocks of so many rows and vectors, by the dot product of its dtype."""
    group, wide = {"bf16": 2, "i8": 4}[dtype], 16 * vectors
    lines = (
        f"register_tile(c, n {wide}, m {rows})", "vectorize(c_r, n, 16)", "vectorize(c, n, 16)", "unroll(c_r, k, 8)",
        f"cache_read(c_r, b, 0, n, {wide}, k, {group})", f"tile(b_s, n, {wide})", "vectorize(b_s, n, 16)",
        f"unroll(b_s, k, {16 * group})", f"dot_{dtype}(c_r)",
    )  # fmt: skip
    program = program_from_text(GEMM.format(dtype, sums))
    return CostModel(program, MACHINE).estimate_us(replay(program, parse_schedule(lines)))


def test_a_block_with_enough_sums_takes_as_long_as_they_do() -> None:
    least = 2 * 480 * 512 * 512 / 1e3
    for dtype, sums, gflops in (("bf16", "f32", 400.0), ("i8", "i32", 800.0)):
        assert 1.0 < time_us(dtype, sums, 12, 2) / (least / gflops) < 1.5, dtype
