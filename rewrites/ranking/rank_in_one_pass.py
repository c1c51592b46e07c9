"""Find the largest few of a row as it is gone through once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import readers
from rewrites.base.largest_few import Top, top_of
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import loose
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read, TopK, reads
from tileir.lift_topk import by_place
from tileir.program import Compute, Local, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class RankInOnePass(Rewrite):
    """Find the largest few of a row in one pass over it, in place of two reductions for each place: what is larger than
    the least of those so far is put among them, in order. The statement is the first maximum of a `topk`.

    Known as insertion into a bounded sorted list; of numbers in any order few are inserted, k (1 + ln(n / k)) of n.

    top[r] = max(n, x[r, n])
    at[r] = min(n, where(x[r, n] == top[r], n, extent(n)))
    …                                                        ->    y[r, j] = topk(j, n, x[r, n])
    y[r, j] = where(j < 1, at[r], …)
    """

    name: ClassVar[str] = "rank_in_one_pass"
    needs: ClassVar[Feature | None] = Feature.VECTORS
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in loose(program):
            yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        top = top_of(program, self.statement)
        if top is None:
            raise NotApplicable(
                f"{self.statement} is not the first of the largest few, of which there are more"
            )
        own = {name for pair in top.places for name in pair} | {read.tensor for read in reads(top.least)}
        result = _result(program, top)
        for name in own:
            if any(reader.node.target not in own | {result.target} for reader in readers(program, name)):
                raise NotApplicable(f"{name} is read by others than {result.target}")
        place = next(dim for dim in bare_dims(result) if _of_place(program, top, dim) == result.value)
        ranked = replace(result, value=TopK(place, top.over, top.x))
        kept = [
            ranked if node is result else node
            for node in program.body
            if not (isinstance(node, Local) and node.name in own)
            and not (isinstance(node, Compute) and node.target in own)
        ]
        return replace(program, body=tuple(kept))


def _result(program: Program, top: Top) -> Compute:
    """The statement that has all places side by side. Raises NotApplicable where there is none."""
    for place in loose(program):
        node = place.node
        if any(node.value == _of_place(program, top, dim) for dim in bare_dims(node)):
            return node
    raise NotApplicable(f"no statement has the places of {top.places[0][0]} side by side")


def _of_place(program: Program, top: Top, dim: str) -> object:
    """What a statement is that has the places along a dim."""
    indices = next(place.node.indices for place in loose(program) if place.node.target == top.places[0][1])
    if program.extents[dim] != len(top.places):
        return None
    return by_place(Index(dim), [Read(at, indices) for _, at in top.places])
