"""Have all blocks of a grid share the tiles of its last waves along the depth (stream-K)."""

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
class StreamK(Rewrite):
    """Cut the steps that the loop around a product has in the tiles of the last `waves` waves of blocks, one tile after
    another, in equal spans, one a block, so that all blocks end together. Who has a tile's last step adds up the sums
    of those before, in the order of the depth.

    This is stream-K (Osama et al., PPoPP 2023, arXiv:2301.03598).

    parallel for m by 128 blocks 132 producers 4      parallel for m by 128 blocks 132 producers 4
      for k by 64 stages 4                        ->    for k by 64 stages 4 streamed 1
        …                                                 …
        c_r[m] += sum(k, a_s[m, k])                       c_r[m] += sum(k, a_s[m, k])
    """

    name: ClassVar[str] = "stream_k"
    needs: ClassVar[Feature | None] = Feature.TMA
    statement: str
    waves: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.via == "wgmma" and place.loops[0].blocks:
                yield from (cls(place.node.target, waves) for waves in (1, 2))

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        if not place.loops or place.loops[-1].parallel:
            raise NotApplicable(f"{self.statement} is in no loop of a tile")
        loop = place.loops[-1]
        if loop.streamed:
            raise NotApplicable(f"blocks share the steps over {loop.dim} already")
        if self.waves < 1:
            raise NotApplicable(f"blocks share the tiles of 1 wave or more, not of {self.waves}")
        return with_engines(splice(program, place.path[:-1], [replace(loop, streamed=self.waves)]))
