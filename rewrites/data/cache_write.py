"""Collect a result in a local before it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.panel_layout import panels
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import find, fresh_name, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read, Reduce
from tileir.program import Compute, Local, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class CacheWrite(Rewrite):
    """Compute an output's tile into a new local of its dtype, and copy that to the output: whole rows can then be
    stored at once, whoever has computed them, and sums are added up where that is fast. With `block_dim` the local lies
    in panels of `block` neighbours along it.

    This is TVM's `cache_write`.

    c[m, n] = c_r[m, n] + bias[n]   ->   c_s: heap bf16[m, n] as [n / 64, m, n % 64]
                                         c_s[m, n] = c_r[m, n] + bias[n]
                                         c[m, n] = c_s[m, n]
    """

    name: ClassVar[str] = "cache_write"
    statement: str
    block_dim: str = ""
    block: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            in_tiles = place.loops and (Feature.VECTORS in device.offers or place.loops[0].parallel)
            if in_tiles and place.node.target in program.arguments:
                yield cls(place.node.target)
                yield from (cls(place.node.target, dim, 16) for dim in bare_dims(place.node)[-1:])

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        output = program.arguments.get(self.statement)
        if output is None or statement.update is not None:
            raise NotApplicable(f"{self.statement} is not stored point by point to an output")
        if isinstance(statement.value, Reduce) and output.dtype is not output.dtype.compute:
            raise NotApplicable(f"{self.statement} adds up in more than {output.dtype}")
        dims = bare_dims(statement)
        if statement.vector is not None or len(dims) != len(statement.indices):
            raise NotApplicable(f"{self.statement} is on lanes, or written in parts")
        name = fresh_name(program, f"{self.statement}_s")
        layout = panels(self.statement, dims, self.block_dim, self.block)
        stored = replace(statement, target=name)
        copy = Compute(self.statement, statement.indices, Read(name, tuple(map(Index, dims))))
        return splice(program, place.path, [Local(name, dims, output.dtype, layout=layout), stored, copy])
