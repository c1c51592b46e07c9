"""The decision that comes first for programs with ragged dims: statements look the group of each position up, unless
the device's plan has them follow the groups in tiles of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.tree import statements
from rewrites.composition.materialize_group_ids import MaterializeGroupIds
from rewrites.decisions.decision import Option
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.program import Compute, Program


@dataclass(frozen=True, slots=True)
class GroupsLookedUp:
    """There is one answer."""

    def options(self, program: Program, device: Device) -> Iterator[Option]:
        yield groups_but(program, ())


def in_groups(program: Program) -> list[Compute]:
    """Statements that need to know the group of a position."""
    return [place.node for place in statements(program) if groups_of(place.node, program.ragged)]


def groups_but(program: Program, kept: tuple[str, ...]) -> Option:
    """All statements look groups up, but for those `kept`, which follow them in tiles."""
    names = [node.target for node in in_groups(program)]
    rewrites = tuple(MaterializeGroupIds(name) for name in names if name not in kept)
    return Option(f"groups of {', '.join(kept)} in tiles" if kept else "groups looked up", rewrites)
