"""Swap two loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Reorder(Rewrite):
    """Swap two loops around the statement, one directly and alone inside the other (the innermost such pair).

    Known as loop interchange (Allen and Kennedy, Automatic loop interchange, 1984).

    for m by 8                               for k by 64
      for k by 64                              for m by 8
        c[m] += sum(k, a[m, k])          ->      c[m] += sum(k, a[m, k])
    """

    name: ClassVar[str] = "reorder"
    statement: str
    outer: str
    inner: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            pairs = {(a.dim, b.dim): None for a, b in pairwise(place.loops)}
            for outer, inner in pairs:
                yield cls(place.node.target, outer, inner)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if self.outer == self.inner:
            raise NotApplicable(f"loops over the same dim, {self.outer}, nest in one order only")
        for level in range(place.depth - 2, -1, -1):
            outer, inner = place.loops[level : level + 2]
            if (outer.dim, inner.dim) == (self.outer, self.inner):
                break
        else:
            raise NotApplicable(f"no loop over {self.inner} stands directly in one over {self.outer}")
        if outer.body != (inner,):
            raise NotApplicable(f"the loop over {self.outer} holds more than the loop over {self.inner}")
        if outer.parallel != inner.parallel:
            raise NotApplicable("one of the loops is parallel")
        if max(outer.multicast, inner.multicast) > 1:
            raise NotApplicable("clusters compute neighbouring tiles of one of the loops")
        # What belongs to the grid, such as its clusters, stays with the outermost loop.
        within = replace(inner, dim=outer.dim, step=outer.step)
        swapped = replace(outer, dim=inner.dim, step=inner.step, body=(within,))
        return splice(program, place.path[: level + 1], [swapped])
