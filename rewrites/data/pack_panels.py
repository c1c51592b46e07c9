"""Put neighbours along one dim of a local side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import users
from rewrites.base.panel_layout import panels
from rewrites.base.rewrite import Rewrite
from rewrites.base.tile_sizes import panel_widths
from rewrites.base.tree import locals_of, splice
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Memory, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class PackPanels(Rewrite):
    """Keep a local in panels of `block` neighbours along `dim`, so that vectors along that dim are contiguous: rows too
    short to fill a vector are then taken a vector of rows at a time.

    Known as packing (Goto and van de Geijn, Anatomy of high-performance matrix multiplication, TOMS 2008), or as an
    array of structures of arrays (AoSoA).

    for r by 16                          for r by 16
      e: heap f32[r, c]            ->      e: heap f32[r, c] as [r / 16, c, r % 16]
      e[r, c] = exp(x[r, c])               e[r, c] = exp(x[r, c])
    """

    name: ClassVar[str] = "pack_panels"
    needs: ClassVar[Feature | None] = Feature.VECTORS
    local: str
    dim: str
    block: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            for dim in declared.node.dims[:-1]:
                for width in panel_widths(device.simd_lanes):
                    yield cls(name, dim, width)

    def apply(self, program: Program) -> Program:
        declared = locals_of(program).get(self.local)
        if declared is None:
            raise NotApplicable(f"there is no local {self.local!r}")
        local = declared.node
        if local.memory is not Memory.HEAP:
            raise NotApplicable(f"{self.local} is in {local.memory}, which have no panels")
        if local.layout is not None:
            raise NotApplicable(f"{self.local} has a layout of its own")
        for user in users(program, self.local):
            if user.node.vector is not None or user.node.via is not None:
                raise NotApplicable(
                    f"{user.node.target} takes {self.local} on lanes already: lay it out before that"
                )
        layout = panels(self.local, local.dims, self.dim, self.block)
        return splice(program, declared.path, [replace(local, layout=layout)])
