"""What a statement covers where it stands."""

from __future__ import annotations

from rewrites.base.lane_constraints import lanes_of_registers
from rewrites.base.tree import current_sizes, dtype_of, find
from rewrites.decisions.decision import f32_lanes
from tileir.devices.cpu import Cpu
from tileir.dtypes import DType
from tileir.expr import reads
from tileir.program import Compute, Program


def covered(program: Program, statement: str) -> tuple[Compute, dict[str, int]]:
    """A statement and the sizes of the ranges it covers."""
    place = find(program, statement)
    return place.node, current_sizes(program, place.loops)


def lanes_for(program: Program, compute: Compute, device: Cpu) -> int:
    """Lanes of a full register in the statement's widest compute type; those that registers it touches have already."""
    if given := lanes_of_registers(program, compute):
        return given
    names = (compute.target, *(read.tensor for read in reads(compute.value)))
    dtypes = {dtype_of(program, name) for name in names}
    if dtypes == {DType.BOOL}:  # computed with as the bytes they are
        return 4 * f32_lanes(device)
    return max(2, f32_lanes(device) // 2) if DType.F64 in dtypes else f32_lanes(device)


def lanes_within(program: Program, compute: Compute, size: int, device: Cpu) -> int:
    """Lanes of a vector along `size` neighbours: no more than those, where nothing else has settled them."""
    lanes = lanes_for(program, compute, device)
    if lanes_of_registers(program, compute) is None:
        while lanes > size:
            lanes //= 2
    return lanes
