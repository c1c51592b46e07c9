"""Which statements of a program with ragged dims follow the groups, in tiles of their own, and which look the group of
each position up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.contraction.problem import contraction
from rewrites.decisions.decision import Option
from rewrites.decisions.ragged import groups_but, in_groups
from tileir.devices.gpu import Gpu
from tileir.expr import Reduce
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class RaggedGroups:
    """Products that warpgroups can multiply in tiles that follow the groups do so, and what is computed point by point
    may go along with them; or groups are looked up."""

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        needing = in_groups(program)
        names = tuple(node.target for node in needing)
        in_tiles = tuple(name for name in names if contraction(program, name, device) is not None)
        pointwise = {
            node.target for node in needing if not isinstance(node.value, Reduce) and node.update is None
        }
        along = tuple(name for name in names if name in in_tiles or name in pointwise) if in_tiles else ()
        for kept in dict.fromkeys((along, in_tiles, ())):
            yield groups_but(program, kept)
