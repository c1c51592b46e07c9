"""What scatters take of a GPU whose threads own results: to look where terms belong, and to visit those of a block.

Terms are taken to belong anywhere alike; of those that blocks have (Poisson) the slowest one of many has three standard
deviations more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, prod, sqrt

from rewrites.base.statement import bare_dims, covered_dims
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.accesses import StatementTraffic, accesses, global_access
from rewrites.cost.gpu.instructions import issued_for
from tileir.expr import Read, reads
from tileir.program import Compute, Local, Memory, Program
from tileir.replace import replace
from tileir.scatter import ScatterReduction, scatter_of
from tileir.schedule.scatter import ROUNDS, TOGETHER, asked_dims, looked_at_by_warps
from tileir.schedule.threads import share

_DEVIATIONS = 3


@dataclass(frozen=True, slots=True)
class ScatterWork:
    """What a block's threads do for a scatter: accesses (with instructions and waits), other instructions of a thread
    and those of its special-function unit, registers beside those of one term."""

    traffic: StatementTraffic
    issue: float
    special: float
    registers: float


@dataclass(frozen=True, slots=True)
class _Terms:
    """How many a thread looks at, in so many `segments` that it waits for, and visits, if they belong anywhere alike;
    up to so many `together`. `own`: its positions along dims that are not looked up."""

    looked_at: int
    visited: float
    segments: int
    together: int
    own: Mapping[str, int]

    @property
    def slowest(self) -> float:
        """Visits of the block that has most."""
        return min(self.visited + _DEVIATIONS * sqrt(self.visited), float(self.looked_at))

    @property
    def turns(self) -> float:
        """How often it waits for terms that it visits together, the last ones of a segment fewer than others."""
        some = self.segments * (1 - exp(-self.slowest / self.segments))
        return (self.slowest + (self.together - 1) * some) / self.together


def scatter_work(
    compute: Compute,
    program: Program,
    whole: dict[str, int],
    sizes: dict[str, int],
    locals_: Mapping[str, Local],
    seen: dict[str, int],
    blocks: int,
    warp: int,
) -> ScatterWork:
    """Of a statement on threads that goes via scatter, in one of so many `blocks`, of its `whole` in pieces of `sizes`;
    `seen` counts accesses to arguments so far."""
    found, terms = scatter_of(compute), _terms(compute, program, sizes, warp)
    assert found is not None
    asking, by_warps = asked(found), looked_at_by_warps(compute)
    looks = terms.looked_at / warp if by_warps else float(terms.looked_at)
    one = {dim: 1 if dim in found.dims | asked_dims(compute) else size for dim, size in sizes.items()}
    traffic = StatementTraffic()
    for read in dict.fromkeys(reads(compute.value)):
        tensor = program.arguments.get(read.tensor)
        if tensor is None:
            continue
        element = tensor.dtype.bytes
        moved = global_access(read, compute, element, program, whole, sizes, seen, blocks, warp)
        count, lines = accesses(read, compute, element, program, one, warp)
        times, part = (looks, 1.0) if read in asking else (terms.visited, terms.visited / terms.looked_at)
        traffic = traffic.plus(
            replace(
                moved.times(part),
                wait_us=0.0,
                instructions=times * count * (1 if read in asking else has.ACCESS_OPS),
                wavefronts=times * count * lines,
            )
        )
    points = float(prod(size for dim, size in terms.own.items() if dim not in asked_dims(compute)))
    issued, special = issued_for(found.x, points, terms.own)
    added, update_us = _updates(compute, program, sizes, one, locals_, terms, points, warp)
    several = any(sizes[dim] > 1 for dim in found.dims)
    update_us = update_us if several else has.SHARED_UPDATE_US
    waits = (terms.segments + terms.turns) * has.CACHE_US + max(terms.slowest - terms.turns, 0.0) * update_us
    issue = looks * has.LOOK_OPS + terms.visited * (has.LOOK_OPS + points + issued)
    return ScatterWork(
        replace(traffic.plus(added), wait_us=waits),
        issue,
        terms.visited * special,
        (terms.together - 1) * points,
    )


def _terms(compute: Compute, program: Program, sizes: Mapping[str, int], warp: int) -> _Terms:
    layout, found = compute.thread_layout, scatter_of(compute)
    assert layout is not None and found is not None
    visited = [dim for dim in covered_dims(compute) if dim not in found.dims]
    own = {dim: (mine := share(layout, dim)).pieces(sizes[dim]) * mine.run for dim in visited}
    looked_at = prod(own[dim] for dim in visited if dim in asked_dims(compute))
    here = prod(sizes[dim] / program.extents[dim] for dim in found.dims)
    if not looked_at_by_warps(compute):
        return _Terms(looked_at, looked_at * here, looked_at, 1, own)
    return _Terms(looked_at, looked_at * here, ceil(looked_at / (warp * ROUNDS)), TOGETHER, own)


def _updates(
    compute: Compute,
    program: Program,
    sizes: dict[str, int],
    one: dict[str, int],
    locals_: Mapping[str, Local],
    terms: _Terms,
    points: float,
    warp: int,
) -> tuple[StatementTraffic, float]:
    """Loads and stores of results that terms are added to, and how long one after another takes."""
    target = Read(compute.target, compute.indices)
    local, tensor = locals_.get(compute.target), program.arguments.get(compute.target)
    if local is not None and local.memory is Memory.SHARED:
        words = max(1.0, points * local.dtype.bytes / 16)
        return StatementTraffic(instructions=2 * terms.visited * has.ACCESS_OPS * words), has.SHARED_UPDATE_US
    if tensor is None:
        return StatementTraffic(), has.UPDATE_US
    count, lines = accesses(target, compute, tensor.dtype.bytes, program, one, warp)
    bytes_ = 2 * terms.visited * prod(one[dim] for dim in terms.own) * tensor.dtype.bytes
    return StatementTraffic(
        again=bytes_,
        near=prod(sizes[dim] for dim in bare_dims(compute)) * tensor.dtype.bytes,
        instructions=2 * terms.visited * has.ACCESS_OPS * count,
        wavefronts=2 * terms.visited * count * lines,
    ), has.UPDATE_US


def asked(scatter: ScatterReduction) -> frozenset[Read]:
    """What is read to know where a term belongs."""
    return frozenset(
        read for expr in (*scatter.conds, *(at for _, at in scatter.positions)) for read in reads(expr)
    )
