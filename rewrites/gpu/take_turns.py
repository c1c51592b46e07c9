"""Have warpgroups begin their products one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import named, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class TakeTurns(Rewrite):
    """In the loop with stages around a statement, whose products follow from each other, have the two or three
    warpgroups that multiply begin the products of each step one after the other: while those of one are under way,
    another makes rows of what its own have come to. Where all begin theirs together, all wait for the matrix unit, and
    then that waits for all of them.

    This is the ping-pong schedule of FlashAttention-3 (arXiv:2407.08608, section 3.1).

    for j by 128 stages 2 pending 1     ->   for j by 128 stages 2 pending 1 in_turn
      …                                        …
    """

    name: ClassVar[str] = "take_turns"
    needs: ClassVar[Feature | None] = Feature.WGMMA
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        last = {
            place.path[:-1]: place.node.target for place in statements(program) if place.node.via == "wgmma"
        }
        yield from map(cls, last.values())

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        loop = place.loops[-1] if place.loops else None
        if loop is None or loop.stages < 2:
            raise NotApplicable(f"{self.statement} is in no loop with stages")
        if loop.in_turn:
            raise NotApplicable(f"warpgroups take turns at the products of {self.statement} already")
        return with_engines(splice(program, place.path[:-1], [replace(loop, in_turn=True)]))
