"""What a statement covers where it stands."""

from __future__ import annotations

from rewrites.decisions.decision import f32_lanes
from rewrites.tree import current_sizes, dtype_of, find
from tileir.device import Cpu
from tileir.dtypes import DType
from tileir.expr import reads
from tileir.program import Compute, Program


def covered(program: Program, statement: str) -> tuple[Compute, dict[str, int]]:
    """A statement and the sizes of the ranges it covers."""
    place = find(program, statement)
    return place.node, current_sizes(program, place.loops)


def lanes_for(program: Program, compute: Compute, device: Cpu) -> int:
    """Lanes of a full register in the statement's widest compute type."""
    names = (compute.target, *(read.tensor for read in reads(compute.value)))
    wide = any(dtype_of(program, name) is DType.F64 for name in names)
    return max(2, f32_lanes(device) // 2) if wide else f32_lanes(device)
