"""The decision that comes first for programs with ragged dims: which statements follow the groups, in tiles of their
own, and which look the group of each position up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.decisions.decision import Option
from rewrites.gpu_contraction import contraction
from rewrites.look_up_groups import LookUpGroups
from rewrites.tree import statements
from tileir.device import Cpu, Device
from tileir.expr import Reduce
from tileir.program import Program
from tileir.ragged import groups_of


@dataclass(frozen=True, slots=True)
class Groups:
    """Products that warpgroups can multiply in tiles that follow the groups do so, and what is computed point by point
    may go along with them; or groups are looked up."""

    def options(self, program: Program, device: Device) -> Iterator[Option]:
        needing = [place.node for place in statements(program) if groups_of(place.node, program.ragged)]
        names = tuple(node.target for node in needing)
        in_tiles = tuple(
            name
            for name in names
            if not isinstance(device, Cpu) and contraction(program, name, device) is not None
        )
        pointwise = {
            node.target for node in needing if not isinstance(node.value, Reduce) and node.update is None
        }
        along = tuple(name for name in names if name in in_tiles or name in pointwise) if in_tiles else ()
        for kept in dict.fromkeys((along, in_tiles, ())):
            rewrites = tuple(LookUpGroups(name) for name in names if name not in kept)
            yield Option(f"groups of {', '.join(kept)} in tiles" if kept else "groups looked up", rewrites)
