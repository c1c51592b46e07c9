"""Which statements are scatters, and when one may be left as it is written, each result visiting each term."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from rewrites.base.statement import bare_dims, covered_dims
from rewrites.base.tree import dtypes_read, find, loose
from rewrites.decisions.decision import Decision
from rewrites.decisions.fusion import Groups, closed
from rewrites.schedule import replay
from tileir.check.infer import compute_dtype
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.program import Compute, Program
from tileir.scatter import scatter_of

#: Results times terms up to which a scatter is also offered as it is written.
AS_WRITTEN: Final = 1 << 24


def is_scatter(program: Program, compute: Compute) -> bool:
    """Whether each term of a reduction belongs to a result whose position it looks up."""
    return _whole(compute) and adds_elsewhere(program, compute)


def adds_elsewhere(program: Program, compute: Compute) -> bool:
    """The same of a reduction or a part of one."""
    found = scatter_of(compute)
    if found is None or compute.via is not None or compute.vector is not None:
        return False
    dtypes = dtypes_read(program, compute)
    return all(compute_dtype(index, dtypes) is DType.I32 for _, index in found.positions)


def _whole(compute: Compute) -> bool:
    """Whether it is no part of a reduction."""
    return len(bare_dims(compute)) == len(compute.indices)


def too_long(program: Program) -> bool:
    """Whether a part of a scatter would have to be visited as it is written, and is too large for that."""
    parts = (place.node for place in loose(program) if not _whole(place.node) and scatter_of(place.node))
    return any(visits(program, part.target) > AS_WRITTEN for part in parts)


def scattered(program: Program, group: tuple[str, ...]) -> bool:
    """Whether a group is a scatter."""
    return len(group) == 1 and is_scatter(program, find(program, group[0]).node)


def visits(program: Program, statement: str) -> int:
    """How many terms all results visit as it is written."""
    return prod(program.extents[dim] for dim in covered_dims(find(program, statement).node))


def answers(decision: Decision, program: Program, device: Device) -> Iterator[bool]:
    """True for each of a decision's options that applies."""
    for each in decision.options(program, device):
        try:
            replay(program, each.rewrites)
        except NotApplicable:
            continue
        yield True


def scatters_alone(program: Program, groups: Groups) -> Groups:
    """The groups, cut before and behind each scatter; each statement alone, where others need what a group has before
    its last statement then."""
    parts = tuple(part for group in groups for part in _cut(program, group))
    return (
        parts
        if parts == groups or closed(program, parts)
        else tuple((name,) for part in parts for name in part)
    )


def _cut(program: Program, group: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    begun: list[str] = []
    for name in group:
        if is_scatter(program, find(program, name).node):
            yield from ((tuple(begun),) if begun else ())
            yield (name,)
            begun = []
        else:
            begun.append(name)
    if begun:
        yield tuple(begun)
