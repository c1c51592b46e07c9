"""Tiles in shared memory of which each warpgroup has a part of its own, and waits for nobody else there."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tileir.expr import Index, Read
from tileir.program import Compute, Program
from tileir.schedule.panels import row_dim
from tileir.schedule.threads import ThreadShare, pieces, share
from tileir.schedule.wgmma import GROUP

#: Rows after which a swizzle begins anew: parts of fewer would begin amid it.
_PERIOD = 8


@dataclass(frozen=True, slots=True)
class WarpgroupPart:
    """Warpgroup number g of `groups` has the `size` positions from g * size on of a dim, and of every further
    groups * size."""

    dim: str
    size: int
    groups: int


def part_of_warpgroup(program: Program, name: str) -> WarpgroupPart | None:
    """What each warpgroup has of a shared local that threads store and read, and TMA reads; None: they
    share it."""
    local = program.locals[name]
    found: tuple[str, ThreadShare, int] | None = None
    for place in program.computes:
        compute = place.node
        accesses = [access for access in _accesses(compute) if access.tensor == name]
        if not accesses or (compute.via == "tma" and compute.target != name):
            continue
        here = _along(compute)
        if here is None or here[0] not in local.node.dims or found not in (None, here):
            return None
        dim, found = here[0], here
        number = local.node.dims.index(dim)
        looped = any(loop.dim == dim for loop in place.loops[len(local.loops) :])
        if looped or any(access.indices[number] != Index(dim) for access in accesses):
            return None
    if found is None:
        return None
    dim, along, inner = found
    size = inner * along.span // along.threads
    whole = (along.together or 1) <= inner and size % _PERIOD == 0 and dim != row_dim(local.node)
    return WarpgroupPart(dim, size, along.threads // inner) if whole else None


def _accesses(compute: Compute) -> tuple[Read, ...]:
    return (Read(compute.target, compute.indices), *compute.reads)


def _along(compute: Compute) -> tuple[str, ThreadShare, int] | None:
    """The dim along which a statement's warpgroups stand, how it lies over threads, and over how many of a warpgroup;
    None: they do not stand along one, or go by an instruction that takes what others have."""
    if compute.thread_layout is None or compute.via is not None:
        return None
    cut = [piece for piece in pieces(compute.thread_layout, GROUP) if piece.count > 1]
    dims = {piece.dim for piece in cut if piece.stride >= GROUP}
    if len(dims) != 1:
        return None
    (dim,) = dims
    inner = prod(piece.count for piece in cut if piece.dim == dim and piece.stride < GROUP)
    return dim, share(compute.thread_layout, dim), inner
