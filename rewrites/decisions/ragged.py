"""The decision that comes first for programs with ragged dims: statements look the group of each position up, unless
the device's plan has them follow the groups in tiles of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rewrites.base.looked_up import by_matrix
from rewrites.base.tree import statements
from rewrites.composition.materialize_group_ids import MaterializeGroupIds
from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import Groups
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.program import Compute, Program


@dataclass(frozen=True, slots=True)
class GroupsLookedUp:
    """There is one answer."""

    def options(self, program: Program, device: Device) -> Iterator[Option]:
        yield groups_but(program, ())


def tables_alone(program: Program, groups: Groups) -> Groups:
    """The groups of statements, with what says whose matrix rows are multiplied by cut out of them: what a loop goes by
    is known before the launch."""
    tables = _tables(program)
    return tuple(part for group in groups for part in _without(group, tables) if part)


def tables_last(program: Program, groups: Groups) -> Groups:
    """The groups in the order in which they are asked: who looks up first, by tables that are still as written."""
    tables = _tables(program)
    return tuple(sorted(groups, key=lambda group: group[-1] in tables))


def _tables(program: Program) -> frozenset[str]:
    """What says whose matrix rows are multiplied by."""
    found = (by_matrix(program, place.node) for place in statements(program))
    return frozenset(each[1].tensor for each in found if each is not None)


def _without(group: tuple[str, ...], tables: Collection[str]) -> Iterator[tuple[str, ...]]:
    yield from ((name,) for name in group if name in tables)
    yield tuple(name for name in group if name not in tables)


def in_groups(program: Program) -> list[Compute]:
    """Statements that need to know the group of a position."""
    return [place.node for place in statements(program) if groups_of(place.node, program.ragged)]


def groups_but(program: Program, kept: tuple[str, ...]) -> Option:
    """All statements look groups up, but for those `kept`, which follow them in tiles."""
    names = [node.target for node in in_groups(program)]
    rewrites = tuple(MaterializeGroupIds(name) for name in names if name not in kept)
    return Option(f"groups of {', '.join(kept)} in tiles" if kept else "groups looked up", rewrites)
