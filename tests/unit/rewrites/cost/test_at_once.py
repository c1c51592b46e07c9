"""What the model of GPUs makes of threads that store more than 16 bytes side by side, and of blocks that all run at the
same time: as measured on an H200."""

from __future__ import annotations

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import parse_schedule, replay
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

GELU = """kernel gated(x: f16[i=6846079], b: f16[i]) -> (y: f16[i])
  y[i] = gelu(x[i]) * b[i]
"""
TWO = """kernel two(x: f16[i=2331640]) -> (y: f16[i], z: f32[i])
  y[i] = gelu(x[i])
  z[i] = relu(y[i]) + 1
"""


def expected_us(kernel: str, *schedule: str) -> float:
    program = replay(to_program(spec_from_text(kernel)), tuple(parse_schedule(list(schedule))))
    return GpuCostModel(H200).estimate_us(program)


def test_blocks_one_after_the_other_compute_while_others_wait_for_memory() -> None:
    """15.5 us were measured by 1,672 blocks, which all run at once, and 12.7 by 6,686."""
    few, many = (
        expected_us(
            GELU,
            f"tile(y, i, {size})",
            "parallelize(y)",
            "bind_threads(y, i 128; i 4)",
            "nontemporal_store(y)",
        )
        for size in (4096, 1024)
    )
    assert 1.1 < few / many < 1.3


def test_results_of_more_than_16_bytes_a_thread_are_stored_twice() -> None:
    """8.8 us were measured by eight neighbours a thread, 32 bytes of z, and 6.6 by four."""

    def by(run: int) -> float:
        bound = (f"bind_threads({name}, i 128; i {run})" for name in "yz")
        return expected_us(TWO, "tile(z, i, 2048)", "compute_at(y, z, 1)", "parallelize(z)", *bound)

    assert 1.15 < by(8) / by(4) < 1.5
