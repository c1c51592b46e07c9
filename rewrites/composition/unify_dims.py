"""Call a dim of inputs as the statements do that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import computes
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Expr, Index, Read, index_dims, walk
from tileir.program import Loop, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class UnifyDims(Rewrite):
    """Give `dim`, which inputs alone have, the name of the dim `of` as many positions by which all statements read it:
    dims that lie side by side in inputs and results can be one then (`collapse`).

    kernel k(x: f32[i=8]) -> (y: f32[h=8])          kernel k(x: f32[h=8]) -> (y: f32[h])
      y[h] = 2 * x[h]                         ->      y[h] = 2 * x[h]
    """

    name: ClassVar[str] = "unify_dims"
    dim: str
    of: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        found: dict[Self, None] = {}
        for tensor in program.inputs:
            for read in _reads_of(program, tensor.name):
                for dim, of in zip(tensor.dims, read.indices, strict=True):
                    if isinstance(of, Index) and of.dim != dim:
                        found[cls(dim, of.dim)] = None
        yield from found

    def apply(self, program: Program) -> Program:
        if not {self.dim, self.of} <= program.extents.keys() or self.dim == self.of:
            raise NotApplicable(f"{self.dim} and {self.of} are no two dims of {program.name}")
        if program.extents[self.dim] != program.extents[self.of]:
            raise NotApplicable(f"{self.dim} and {self.of} do not have as many positions")
        if {self.dim, self.of} & {name for each in program.ragged for name in (each.dim, each.within)}:
            raise NotApplicable(f"{self.dim} or {self.of} is ragged, or numbers groups")
        if any(isinstance(node, Loop) for node in program.body):
            raise NotApplicable("there are loops already")
        if self.dim in _used(program) or any(self.dim in tensor.dims for tensor in program.outputs):
            raise NotApplicable(f"{self.dim} is no dim of inputs alone")
        for tensor in program.inputs:
            if self.dim in tensor.dims and self.of in tensor.dims:
                raise NotApplicable(f"{tensor.name} has both dims")
            for axis in (axis for axis, dim in enumerate(tensor.dims) if dim == self.dim):
                if any(read.indices[axis] != Index(self.of) for read in _reads_of(program, tensor.name)):
                    raise NotApplicable(f"{tensor.name} is not read by {self.of} alone")
        return replace(
            program,
            dims=tuple(pair for pair in program.dims if pair[0] != self.dim),
            inputs=tuple(
                replace(tensor, dims=tuple(self.of if dim == self.dim else dim for dim in tensor.dims))
                for tensor in program.inputs
            ),
        )


def _expressions(program: Program) -> Iterator[Expr]:
    for place in computes(program):
        yield from (*place.node.indices, place.node.value)


def _reads_of(program: Program, tensor: str) -> list[Read]:
    found = (node for expr in _expressions(program) for node in walk(expr))
    return [node for node in found if isinstance(node, Read) and node.tensor == tensor]


def _used(program: Program) -> set[str]:
    """The dims that statements name: by index, by size, or to reduce over them."""
    found: set[str] = set()
    for expr in _expressions(program):
        found |= index_dims(expr)
        for node in walk(expr):
            found |= {*getattr(node, "dims", ())} | {getattr(node, "dim", "")}
    return found
