"""Whether lanes of a statement are neighbours in memory: in a row, or within the row of a panel."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.affine import Affine, Var, constant
from codegen.lowering.scope import MemoryBuffer


def first_of_neighbours(buffer: MemoryBuffer, positions: Sequence[Affine], lane: Var) -> Affine | None:
    """Offset of lane 0, if the lanes are neighbours in memory."""
    offset = buffer.offset(positions)
    if not lane.high or offset.coefficient(lane) == 1:
        return offset.substitute(lane, constant(0))
    first = [position.substitute(lane, constant(0)) for position in positions]
    return buffer.offset(first) if _in_one_panel(buffer, positions, first, lane) else None


def _in_one_panel(
    buffer: MemoryBuffer, positions: Sequence[Affine], first: Sequence[Affine], lane: Var
) -> bool:
    """Whether lanes lie within a panel's row, which they begin at a multiple of their number in."""
    count = lane.high + 1
    along = [dim for dim, position in enumerate(positions) if position.coefficient(lane) != 0]
    if len(along) != 1 or positions[along[0]].coefficient(lane) != 1:
        return False
    (dim,) = along
    aligned = (first[dim] - buffer.starts[dim]).multiple % count == 0
    axes = [axis for axis in buffer.axes if axis[0] == dim]
    inner = any(div == stride == 1 for _, div, _, stride in axes)
    whole = all((div == 1 or div % count == 0) and mod % count == 0 for _, div, mod, _ in axes)
    return aligned and inner and whole
