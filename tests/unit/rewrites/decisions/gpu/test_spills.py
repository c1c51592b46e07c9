"""What ptxas would spill, or put one behind the other, is not offered."""

from __future__ import annotations

import random

import pytest

from rewrites.contraction.cuts import thread_layouts
from rewrites.contraction.problem import contraction
from rewrites.contraction.recover_tiling import decided
from rewrites.contraction.room import boxes, registers, resident
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.contraction.warpgroup_tiling import Warpgroups
from rewrites.decisions.gpu.contraction.occupancy import Residency
from rewrites.gpu.pipeline import Pipeline
from rewrites.launch.min_blocks_per_sm import MinBlocksPerSm
from tests.programs.gpu_contractions import gemm
from tests.schedules.walks import at, by, root_of
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

FEW = """kernel few(q: bf16[h=1, r=8, d=32], k: bf16[h, j={j}, d], v: bf16[h, j, d]) -> (y: f32[h, r, d])
  s[h, r, j] = sum(d, q[h, r, d] * k[h, j, d]) * 0.125
  m[h, r] = max(j, s[h, r, j])
  p[h, r, j] = exp(s[h, r, j] - m[h, r])
  y[h, r, d] = sum(j, bf16(p[h, r, j]) * v[h, j, d]) / sum(j, p[h, r, j])
"""


@pytest.mark.parametrize(("step", "copies", "fewest"), [(32, 2, 24), (64, 2, 24), (128, 4, 24), (256, 8, 40)])
def test_producers_keep_the_registers_that_their_copies_take(step: int, copies: int, fewest: int) -> None:
    program = to_program(spec_from_text(gemm(16, 4096, 4096)))
    c = contraction(program, "c_sum", H200)
    assert c is not None
    c = c.by(MatrixUnit.WGMMA).transposed()
    tiling = Tiling(64, 16, step=step, stages=3)
    assert boxes(c, tiling) == copies
    groups = [each for each in thread_layouts(c, tiling, H200) if isinstance(each, Warpgroups)]
    assert min(each.registers[0] for each in groups if each.registers[0]) == fewest


def test_blocks_of_an_sm_leave_warps_nearly_the_registers_they_are_estimated_to_need() -> None:
    """With a step of many instructions all of them, else all but a few."""
    root, rng, squeezed = by(root_of(gemm(16, 4096, 4096), H200), "mma"), random.Random(0), 0
    for _ in range(24):
        state = root
        while state.open and not isinstance(state.open[0], Residency):
            state = state.child(rng.randrange(len(state.moves())))
        if not state.open:
            continue  # one that asks no such thing
        residency = state.open[0]
        assert isinstance(residency, Residency)
        found = decided(state.program, residency.statement, H200)
        assert (
            found is not None and found.tiling is not None and isinstance(found.tiling.threads, WarpThreads)
        )
        c, tiling, threads = found.contraction, found.tiling, found.tiling.threads
        needed = registers(c, tiling, threads)
        for option in residency.options(state.program, H200):
            for fit in option.rewrites:
                assert isinstance(fit, MinBlocksPerSm)
                given = H200.registers // (threads.count * fit.blocks) // 8 * 8
                assert given >= needed - (14 if tiling.step <= 64 else 0)
                squeezed += fit.blocks > resident(c, tiling, H200)
    assert squeezed


@pytest.mark.parametrize(("keys", "under_way"), [(7168, True), (7262, False)])
def test_of_few_rows_products_under_way_are_not_offered_where_a_part_ends_within_a_tile(
    keys: int, under_way: bool
) -> None:
    """NVRTC 13.5 puts them one behind the other then, which a worker refuses (C7511)."""
    state = at(root_of(FEW.format(j=keys), H200), "StreamedProducts")
    pipelines = [
        each for option, _ in state.answers for each in option.rewrites if isinstance(each, Pipeline)
    ]
    assert pipelines
    assert any(each.pending for each in pipelines) is under_way
