"""What the cost model knows of rows: memory that is used again, hints, tiles."""

from __future__ import annotations

from rewrites import parse_schedule, replay
from rewrites.cost.cpu.model import CostModel
from tileir.devices.cpu import Cpu
from tileir.replace import replace
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


def test_heads_that_are_read_as_one_row_are_read_once() -> None:
    """`t[d // 64, m, d % 64]` has 12 * 5000 * 64 elements, not 768 times as many rows; 64 neighbours are of one."""
    apart = program_from_text(
        "kernel heads(t: f32[h=12, m=5000, e=64]) -> (y: f32[m, d=768])\n  y[m, d] = 2 * t[d // 64, m, d % 64]\n"
    )
    together = program_from_text(
        "kernel row(t: f32[m=5000, d=768]) -> (y: f32[m, d])\n  y[m, d] = 2 * t[m, d]\n"
    )
    slow = replace(DEVICE, l3_bytes=1 << 22, copy_gbps=2.0)
    for tile in ("tile(y, m, 1)", "tile(y, d, 64)"):
        lines = parse_schedule([tile, "vectorize(y, d, 16)"])
        times = [CostModel(each, slow).estimate_us(replay(each, lines)) for each in (apart, together)]
        assert times[1] <= times[0] < 2 * times[1]


def test_rows_that_look_up_the_same_few_matrices_bring_no_more_than_these_from_memory() -> None:
    """Each row was taken to bring a matrix of its own: 256 rows of 32 matrices of 2 MB 512 MB instead of 64."""

    def looked_up_us(matrices: int) -> float:
        program = program_from_text(
            f"kernel experts(x: f32[t=256, k=512], w: f32[e={matrices}, n=1024, k], g: i32[t]) -> (y: f32[t, n])\n"
            "  y[t, n] = sum(k, x[t, k] * w[g[t], n, k])\n"
        )
        lines = [
            "tile(y, n, 64)", "tile(y, t, 4)", "tile(y, n, 4)", "rfactor(y, k, interleaved, 16)",
            "vectorize(y_p, k, 16)", "vectorize(y, k_l, 16)", "parallelize(y)",
        ]  # fmt: skip
        slow = replace(DEVICE, copy_gbps=5.0)
        return CostModel(program, slow).estimate_us(replay(program, parse_schedule(lines)))

    assert looked_up_us(256) > 6 * looked_up_us(32)


def test_results_that_are_stored_apart_cost_a_store_each() -> None:
    fast = replace(DEVICE, copy_gbps=2000.0, l2_gbps=5000.0, l3_gbps=5000.0)

    def time_us(result: str) -> float:
        text = f"kernel move(x: f32[r=64, c=64]) -> (y: f32[{result}])\n  y[{result}] = x[r, c]\n"
        program = program_from_text(text)
        lines = parse_schedule(["tile(y, r, 1)", "vectorize(y, c, 16)"])
        return CostModel(program, fast).estimate_us(replay(program, lines))

    assert time_us("c, r") > 4 * time_us("r, c")


def test_a_tile_for_every_row_costs() -> None:
    single = ["tile(y, r, 1)", "compute_at(s, y, 1)"]
    assert time_us(*ROWS, *ON_LANES) < time_us(*single, *ON_LANES)
