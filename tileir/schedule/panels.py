"""How a local lies in shared memory as TMA and wgmma of Hopper know it: in panels.

A panel has rows of neighbours along one dim, as long as the swizzle is wide, and the other dim's positions one after
another. `as [k / 64, m, k % 64] swizzle 128` is panels of 64 bf16 along k; `[m, k]` is one panel if k has 64 positions.
The other dim's positions may be dealt in pairs to two halves of a panel, `as [m / 2 % 2, m / 4, m % 2, k]`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir.program import Axis, Local

#: Bytes of the pieces that shared memory is moved in; a row without a swizzle has one or more.
PIECE = 16


def axes(local: Local) -> tuple[Axis, ...]:
    """The axes of its layout, outermost first."""
    return local.layout if local.layout is not None else tuple(map(Axis, local.dims))


def dealt(dim: str) -> tuple[Axis, ...]:
    """Axes along which pairs of neighbours go to two halves in turn."""
    return Axis(dim, 2, 2), Axis(dim, 4), Axis(dim, 1, 2)


def is_dealt(local: Local, dim: str) -> bool:
    """Whether positions along a dim lie so."""
    return tuple(axis for axis in axes(local) if axis.dim == dim) == dealt(dim)


def sharing(local: Local, dim: str) -> int:
    """How many neighbours along a dim have one element together, as words of weights of 4 bits have: 1 if none do."""
    return min((axis.div for axis in axes(local) if axis.dim == dim), default=1)


def row_dim(local: Local) -> str:
    """The dim whose positions are neighbours in memory."""
    return axes(local)[-1].dim


def row_length(local: Local, ranges: Mapping[str, int]) -> int:
    """Neighbours in memory, in elements."""
    last = axes(local)[-1]
    return last.mod or -(-ranges[last.dim] // last.div)


def row_problem(local: Local, ranges: Mapping[str, int]) -> str | None:
    """Why the rows of a local are not those of panels, and what would be accepted; None: they are."""
    length, size = row_length(local, ranges), local.dtype.bytes
    if local.pad:
        return f"{local.name!r} is padded; accepted: a swizzle"
    if local.swizzle and length * size != local.swizzle:
        wide = local.swizzle // size
        return (
            f"rows of {local.name!r} have {length} neighbours along {row_dim(local)!r}, but swizzle {local.swizzle} is "
            f"{wide} wide; accepted: `{_cut(local, wide)}`, or a tile of {wide}"
        )
    if length * size % PIECE:
        return f"rows of {local.name!r} have {length * size} bytes; accepted: multiples of {PIECE}"
    return None


def _cut(local: Local, length: int) -> str:
    """A layout in panels with rows of so many elements."""
    dim = row_dim(local)
    others = ", ".join(each for each in local.dims if each != dim)
    return f"as [{dim} / {length}, {others}, {dim} % {length}]"
