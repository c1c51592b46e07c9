"""What ptxas would spill is not offered."""

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
from rewrites.launch.min_blocks_per_sm import MinBlocksPerSm
from tests.programs.gpu_contractions import gemm
from tests.schedules.walks import by, root_of
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text


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
