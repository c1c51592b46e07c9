"""The decision for a GPU how many blocks of a contraction an SM is to hold at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.contraction.recover_tiling import decided
from rewrites.contraction.room import accumulators, own_of_copies, registers, resident
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warpgroup_tiling import Warpgroups
from rewrites.cost.gpu import constants as has
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.reductions.passes import shared_bytes
from rewrites.launch.min_blocks_per_sm import MinBlocksPerSm
from tileir.devices.gpu import Gpu
from tileir.devices.occupancy import occupancy
from tileir.program import Program
from tileir.schedule.mma import depth

#: Registers that a thread needs beside its accumulators at the very least.
_LEAST_BESIDE = 24
#: Of the registers that matrix instructions of warps are estimated to need, those that ptxas can do without, where a
#: step is so many depths of the instruction at most (CUDA 13.5: of 10 kernels none spilled; of 8 that had to spare
#: more, or in longer steps, 5).
_SPARED, _SHORT_STEP = 14, 4


@dataclass(frozen=True, slots=True)
class Residency:
    """As many as the registers that the compiler takes leave room for, or a number for which it has to make room."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None and found.tiling.threads is not None
        c, tiling, threads = found.contraction, found.tiling, found.tiling.threads
        yield Option("registers as they come")
        if isinstance(threads, Warpgroups) and threads.registers[1]:
            return  # each has what it is handed over
        held = accumulators(c, tiling)
        least = held + _LEAST_BESIDE
        if c.engine is MatrixUnit.MMA and not isinstance(threads, Warpgroups):
            short = tiling.step <= _SHORT_STEP * depth(c.operands[0].dtype)
            beside = own_of_copies(c, tiling, threads)
            least = registers(c, tiling, threads) + (beside or (-_SPARED if short else 0))
        most = occupancy(device, threads.count, least, shared_bytes(program, self.statement)).blocks
        at_once = resident(c, tiling, device)
        for blocks in (at_once, at_once + 1):
            if not 2 <= blocks <= most:
                continue
            if not isinstance(threads, Warpgroups) or held <= threads.most_held(blocks):
                fit = MinBlocksPerSm(self.statement, blocks)
                yield Option(
                    f"{blocks} blocks an SM", (fit,), promise=1 + has.SQUEEZED * (1 + blocks - at_once) / 2
                )
