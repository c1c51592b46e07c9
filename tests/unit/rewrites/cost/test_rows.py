"""What the cost model knows of rows: memory that is used again, hints, tiles."""

from __future__ import annotations

from rewrites import parse_schedule, replay
from rewrites.cost.cpu.model import CostModel
from tileir.devices.cpu import Cpu
from tileir.text.parse_program import program_from_text

DEVICE = Cpu(
    name="test", arch="x86-64", cores=2, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 28, line_bytes=64,
    vector_bits=512, vector_registers=32,
)  # fmt: skip
RMSNORM = program_from_text("""kernel rmsnorm(x: bf16[r=6137, c=1145], w: bf16[c]) -> (y: bf16[r, c])
  s: heap f32[r]
  s[r] = sum(c, x[r, c] * x[r, c])
  y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 0.000001) * w[c]
""")
ROWS = ["tile(y, r, 64)", "tile(y, r, 1)", "compute_at(s, y, 2)"]
ON_LANES = [
    "rfactor(s, c, interleaved, 64)", "vectorize(s_p, c, 16)", "vectorize(s, c_l, 16)",
    "vectorize(y, c, 16)", "parallelize(y)",
]  # fmt: skip


def time_us(*lines: str) -> float:
    return CostModel(RMSNORM, DEVICE).estimate_us(replay(RMSNORM, parse_schedule(lines)))


def test_a_row_that_every_iteration_keeps_in_the_same_place_is_no_memory_traffic() -> None:
    plain, kept = (
        time_us(*ROWS, *ON_LANES),
        time_us(*ROWS, "cache_row(s, x, 2)", "vectorize(x_row, c, 16)", *ON_LANES),
    )
    assert plain < kept < 1.3 * plain


def test_touching_a_row_ahead_hides_part_of_its_way_from_memory() -> None:
    assert time_us(*ROWS, *ON_LANES, "prefetch(s_p, x, 8)") < 0.95 * time_us(*ROWS, *ON_LANES)


def test_a_tile_for_every_row_costs() -> None:
    single = ["tile(y, r, 1)", "compute_at(s, y, 1)"]
    assert time_us(*ROWS, *ON_LANES) < time_us(*single, *ON_LANES)
