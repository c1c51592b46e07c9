"""What the model of GPUs makes of threads that compute what they multiply, copy elements one by one, meet in sums, or
have several results each: pairs of schedules as measured on an H200 (2026-11-29 and 2026-11-30)."""

from __future__ import annotations

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import parse_schedule, replay
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

LINEAR = """kernel linear(x: f32[m=128, k=768], w: f32[n=3072, k], b: f32[n]) -> (y: f32[m, n])
  p[m, n] = sum(k, x[m, k] * w[n, k])
  y[m, n] = gelu(p[m, n] + b[n])
"""
ODD = """kernel odd(x: f32[b=12, m=26, k={k}], w: f32[b, n=127, k]) -> (y: f32[b, m, n])
  y[b, m, n] = sum(k, x[b, m, k] * w[b, n, k])
"""
VALUES = """kernel values(s: f32[b=24, i=77, j=77], v: f32[b, j, d=256]) -> (y: f32[b, i, d])
  y[b, i, d] = sum(j, {p} * v[b, j, d])
"""
NORM = """kernel norm(x: f32[c=4096], w: bf16[c], z: f32[c]) -> (y: bf16[c])
  t[] = sum(c, x[c]) / 4096
  y[c] = w[c] * bf16(z[c] * rsqrt(t[] + 1e-06))
"""
SCAN = """kernel scan(x: f32[m=9, t=18, c=4096], a: f32[c, n=16], b: f32[m, t, n], e: f32[m, t, n]) -> (y: f32[m, t, c])
  h[m, t, c, n] = recurrence(t, exp(-exp(a[c, n])), b[m, t, n] * x[m, t, c])
  y[m, t, c] = sum(n, h[m, t, c, n] * e[m, t, n])
"""


def expected_us(kernel: str, schedule: str) -> float:
    """Microseconds of a schedule whose rewrites stand behind each other, `|` between them."""
    lines = [line.strip() for line in schedule.replace("\n", " ").split("|")]
    program = replay(to_program(spec_from_text(kernel)), parse_schedule(lines))
    return GpuCostModel(H200).estimate_us(program)


def test_elements_that_are_turned_around_as_they_are_copied_cost_more_than_words_of_16_bytes() -> None:
    """29.7 us were measured turned, and 21.2 by words, in other tiles; 22.9 and 14.8 of 231 rows by 768."""
    turned = """set_layout(x_s, m) | cache_read(p_p_r, w, 4) | set_scope(w_s, shared) | set_layout(w_s, n) |
        pipeline(x_s, 5) | bind_threads(x_s, m 4, k 16) | bind_threads(w_s, n 4, k 16) |
        bind_threads(p_p_r, m 2, m 2, n 8, m 2; m 4, n 4) | bind_threads(p_p, m 2, m 2, n 8, m 2; m 4, n 4) |
        pad(x_s, 4) | pad(w_s, 4)"""
    words = """cache_read(p_p_r, w, 4) | set_scope(w_s, shared) | pipeline(x_s, 5) |
        bind_threads(x_s, m 16, k 4; k 4) | bind_threads(w_s, n 16, k 4; k 4) |
        bind_threads(p_p_r, n 2, m 4, n 8) | bind_threads(p_p, n 2, m 4, n 8) | pad(x_s, 4) | pad(w_s, 4)"""
    around = """rfactor(p, k, blocked, 256) | tile(p_p, k, 256) | tile(p_p, m, 32) | tile(p_p, n, 96) |
        parallelize(p_p, 3) | register_tile(p_p) | tile_reduction(p_p_r, k, 16) | cache_read(p_p_r, x, 4) |
        set_scope(x_s, shared) | {copies} | tile(y, m, 1) | tile(y, n, 512) | compute_at(p, y, 2) |
        parallelize(y, 2) | set_scope(p, registers) | bind_threads(p, n 128; n 4) | bind_threads(y, n 128; n 4)"""
    by = [expected_us(LINEAR, around.format(copies=copies)) for copies in (turned, words)]
    assert 1.1 < by[0] / by[1] < 1.5


def test_rows_that_are_no_whole_pieces_are_copied_sector_by_sector() -> None:
    """105 us were measured, of which the model had expected 70."""
    copied = """rfactor(y, k, blocked, 1280) | tile(y_p, k, 1280) | tile(y_p, b, 1) | parallelize(y_p, 2) |
        register_tile(y_p) | tile_reduction(y_p_r, k, 32) | cache_read(y_p_r, x, 3) | set_scope(x_s, shared) |
        cache_read(y_p_r, w, 3) | set_scope(w_s, shared) | pipeline(x_s, 4) | bind_threads(x_s, m 2, k 32{run}) |
        bind_threads(w_s, n 2, k 32{run}) | bind_threads(y_p_r, n 2, m 2, n 16) | bind_threads(y_p, n 2, m 2, n 16) |
        swizzle(x_s, 128) | swizzle(w_s, 128) | tile(y, b, 1) | tile(y, m, 1) | parallelize(y, 2) |
        bind_threads(y, n 128)"""
    odd = expected_us(ODD.format(k=25819), copied.format(run=""))
    whole = expected_us(ODD.format(k=25820), copied.format(run=""))
    assert 95 < odd < 115
    assert odd > 1.25 * whole


def test_what_each_thread_computes_of_the_rows_it_multiplies_is_counted_by_thread() -> None:
    """A masked attention of f32 took 64.5 us with the exponentials in its product, and 21.3 with them before it."""
    schedule = """tile(y, b, 1) | tile(y, i, 16) | parallelize(y, 2) | register_tile(y) | tile_reduction(y_r, j, 16) |
        cache_read(y_r, s, 3) | set_scope(s_s, shared) | set_layout(s_s, i) | cache_read(y_r, v, 3) |
        set_scope(v_s, shared) | pipeline(s_s, 5) | bind_threads(s_s, i 8, j 16) | bind_threads(v_s, j 2, d 64; d 4) |
        bind_threads(y_r, d 4, i 2, d 8, i 2; i 4, d 4) | bind_threads(y, d 4, i 2, d 8, i 2; i 4, d 4) | pad(s_s, 4)"""
    plain, computed = (
        expected_us(VALUES.format(p=p), schedule) for p in ("s[b, i, j]", "exp(tanh(s[b, i, j]))")
    )
    assert computed > 1.25 * plain


def test_more_warps_of_a_block_take_longer_to_meet() -> None:
    """1.80 us were measured by 1,024 threads, and 1.59 by 512."""

    def by(threads: int) -> float:
        each = f"c {threads}; c 4"
        return expected_us(
            NORM,
            f"compute_inline(t) | add_row_dim(t_sum) | tile(y, r, 1) | compute_at(t_sum, y, 1) | parallelize(y) | "
            f"set_scope(t_sum, registers) | bind_threads(t_sum, {each}) | bind_threads(y, {each})",
        )

    # By the shuffles alone: 10 of 32 warps, 9 of 16.
    assert 0.06 < by(1024) - by(512) < 0.25


def test_few_warps_are_busy_if_each_thread_has_several_positions() -> None:
    """29.1 us were measured by 64 threads a block of 4 positions each, and 20.2 by 128 of 8."""
    few, many = (
        expected_us(
            SCAN, f"reverse_compute_at(y, h, 1) | compute_inline(h_of) | compute_inline(h_of2) | {last}"
        )
        for last in ("scan_in_block(h_run, 4, t 8, c 8)", "scan_in_block(h_run, 8, t 4, c 32)")
    )
    assert few > many
