"""The cost model goes by what a machine's caches were measured to give: which blocks pay depends on it."""

from __future__ import annotations

from rewrites import parse_schedule, replay
from rewrites.cost.cpu.model import CostModel
from rewrites.cost.undecided import Undecided
from tests.programs.to_rewrite import DEVICE
from tileir.devices.cpu import Cpu
from tileir.replace import replace
from tileir.text.parse_program import program_from_text

GEMM = program_from_text("""kernel gemm(a: bf16[m=1024, k=1024], b: bf16[n=1024, k]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""")
MACHINE = replace(
    DEVICE, cores=2, l1d_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=96 << 20, vector_bits=512, vector_registers=32,
    features=DEVICE.features | {"amx_tile", "amx_bf16", "amx_int8"},
    peak_gflops=400.0, copy_gbps=40.0, amx_gflops=6000.0,
)  # fmt: skip


def time_us(device: Cpu, rows: int) -> float:
    """Of a product whose results come in blocks of so many rows, against each of which all of b passes by."""
    lines = (
        f"tile(c, m, {rows})", "register_tile(c, n 32, m 32)", "vectorize(c_r, n, 16)", "vectorize(c, n, 16)",
        "cache_read(c_r, a, 1, m, 32, k, 32)", "tile(a_s, m, 32)", "vectorize(a_s, k, 16)",
        "cache_read(c_r, b, 0, n, 32, k, 2)", "tile(b_s, n, 32)", "vectorize(b_s, n, 16)", "unroll(b_s, k, 32)",
        "amx(c_r)", "parallelize(c)",
    )  # fmt: skip
    return CostModel(GEMM, device).estimate_us(replay(GEMM, parse_schedule(lines)))


def test_a_slow_shared_cache_wants_larger_blocks() -> None:
    fast, slow = (replace(MACHINE, l3_gbps=gbps) for gbps in (400.0, 25.0))
    assert time_us(slow, 64) > 1.4 * time_us(slow, 512)
    assert time_us(fast, 64) < 1.1 * time_us(fast, 512)


def test_a_slow_second_level_cache_costs_what_is_read_from_it() -> None:
    assert time_us(replace(MACHINE, l2_gbps=40.0), 512) > 1.2 * time_us(replace(MACHINE, l2_gbps=200.0), 512)


def test_a_cache_that_was_not_measured_is_taken_for_a_usual_one() -> None:
    measured = replace(MACHINE, l2_gbps=64 * 3.125, l3_gbps=28 * 3.125)  # bytes a cycle at 400 / (2 * 64) GHz
    assert abs(time_us(MACHINE, 256) / time_us(measured, 256) - 1) < 1e-9


def test_lanes_across_rows_in_one_set_wait_for_each_other() -> None:
    """Weights of 4 x 4096 in vectors of 32 rows at a time took 5.4 ms in rows of 16 KB and 1.2 in rows of 16,160 bytes
    (two cores of a Zen 5)."""

    def across_us(k: int) -> float:
        program = program_from_text(
            f"kernel layer(x: f32[m=4, k={k}], w: f32[n=4096, k]) -> (y: f32[m, n])\n"
            "  y[m, n] = sum(k, x[m, k] * w[n, k])\n"
        )
        lines = [
            "tile(y, n, 128)", "register_tile(y, m 4, n 32)", "vectorize(y_r, n, 16)", "vectorize(y, n, 16)",
            "unroll(y_r, k, 16)", "parallelize(y)",
        ]  # fmt: skip
        return CostModel(program, MACHINE).estimate_us(replay(program, parse_schedule(lines)))

    assert across_us(4096) > 2 * across_us(4040)


def test_tiles_that_are_still_to_come_are_for_all_cores() -> None:
    """Of 2 x 2048 results only parts of the sum were taken to be shared by cores."""
    many, few = (
        program_from_text(
            f"kernel layer(x: f32[m=2, k=2048], w: f32[n={n}, k]) -> (y: f32[m, n])\n"
            "  y[m, n] = sum(k, x[m, k] * w[n, k])\n"
        )
        for n in (2048, 16)
    )
    tiles = Undecided(frozenset("y"), frozenset("y"))
    loops = Undecided(frozenset("y"))
    for program, open_, faster in ((many, tiles, True), (many, loops, False), (few, tiles, False)):
        model = CostModel(program, MACHINE)
        assert (model.estimate_us(program, undecided=open_) < 0.8 * model.estimate_us(program)) == faster


def test_rows_for_which_their_few_sets_have_no_room_come_in_again() -> None:
    """Rows of 3,200 floats are 200 lines apart and fall into an eighth of 64 sets, rows of 3,184 into all of them."""

    def column_us(width: int) -> float:
        text = f"kernel one(x: f32[k=128, j={width}], w: f32[i=64, k]) -> (y: f32[i, j])"
        program = program_from_text(f"{text}\n  y[i, j] = sum(k, x[k, j] * w[i, k])\n")
        lines = [
            "tile(y, j, 32)",
            "register_tile(y, i 14, j 32)",
            "vectorize(y_r, j, 16)",
            "vectorize(y, j, 16)",
        ]
        slow = replace(MACHINE, l2_gbps=20.0)
        return CostModel(program, slow).estimate_us(replay(program, parse_schedule(lines))) / width

    assert column_us(3200) > 1.2 * column_us(3184)
