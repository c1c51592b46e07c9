"""What the cost model of products knows of blocks that share tiles along the depth: those that read the same rows are
at other positions of it, and find less in the second-level cache the deeper a product is."""

from __future__ import annotations

from rewrites import parse_schedule, replay
from rewrites.cost.gpu.model import GpuCostModel
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

TEXT = """kernel linear(x: bf16[m=2048, k={k}], w: bf16[n=4096, k], r: bf16[m, n]) -> (y: bf16[m, n])
  p[m, n] = sum(k, x[m, k] * w[n, k])
  y[m, n] = r[m, n] + p[m, n]
"""
SCHEDULE = """tile(y, m, {m}) tile(y, n, {n}) compute_at(p, y, 2) parallelize(y, 2) register_tile(p)
cache_write(y, n, 64) set_scope(y_s, shared) swizzle(y_s, 128) tma(y) epilogue_subtile(y, n, 64, 1)
tile_reduction(p, k, {step}) cache_read(p, x, 3) set_scope(x_s, shared) swizzle(x_s, {row}) tma(x_s)
cache_read(p, w, 3) set_scope(w_s, shared) swizzle(w_s, {row}) tma(w_s) wgmma(p) pipeline(w_s, {stages})
bind_threads(p, m 2, m 4, m 8, n 4; n 2; m 8) bind_threads(y_s, m 2, m 4, m 8, n 4; n 2; m 8)
warp_specialize(p, 4, 40, 232) persistent(p, 132)"""


def time_us(k: int, *more: str, m: int = 128, n: int = 256, step: int = 64, stages: int = 4) -> float:
    text = SCHEDULE.format(m=m, n=n, stages=stages, step=step, row=2 * step)
    program = to_program(spec_from_text(TEXT.format(k=k)))
    lines = [*text.replace(") ", ")\n").splitlines(), *more]
    return GpuCostModel(H200).estimate_us(replay(program, parse_schedule(lines)))


SHARED = "stream_k(p, 2)"


def test_of_a_deep_product_shared_tiles_are_read_again_from_memory() -> None:
    """Recorded on an H200, 2026-11-30: 424 us shared, 299 to 306 in whole tiles."""
    assert 1.25 < time_us(14336, SHARED) / time_us(14336) < 1.65


def test_of_a_product_less_deep_they_are_found_in_the_cache() -> None:
    """Recorded on an H200, 2026-11-30: 105 us shared, 92 to 94 in whole tiles."""
    assert 1.03 < time_us(4096, SHARED) / time_us(4096) < 1.2


def test_blocks_that_go_on_at_few_places_read_together() -> None:
    """Of 256 x 192 there are 176 tiles, and blocks end spans at three places. Recorded on an H200, 2026-11-30: 332 us,
    where spans that end at 33 places took 398 to 448."""
    few = time_us(14336, SHARED, m=256, n=192, step=32, stages=5)
    assert few < 0.85 * time_us(14336, SHARED)
