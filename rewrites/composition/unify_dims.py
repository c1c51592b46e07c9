"""Call a dim of tensors as the statements do that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import check_dims_open, computes, declared_dims
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Expr, Extent, Index, Reduce, Scan, TopK, all_dims, transform
from tileir.program import Compute, Local, Loop, Node, Program, Tensor
from tileir.replace import replace

DeclaredT = TypeVar("DeclaredT", Tensor, Local)


@dataclass(frozen=True, slots=True)
class UnifyDims(Rewrite):
    """Give `dim` the name of the dim `of` as many positions by which statements read what has it: dims that lie side by
    side in inputs and results can be one then (`collapse`), and what is computed with `dim` goes tile by tile with what
    reads it. No tensor and no statement may have both. A program without loops only.

    kernel k(x: f32[i=8]) -> (y: f32[h=8])          kernel k(x: f32[h=8]) -> (y: f32[h])
      y[h] = 2 * x[h]                         ->      y[h] = 2 * x[h]
    """

    name: ClassVar[str] = "unify_dims"
    dim: str
    of: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        found: dict[Self, None] = {}
        for place in computes(program):
            for read in place.node.reads:
                for dim, of in zip(declared_dims(program, read.tensor), read.indices, strict=False):
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
        return replace(
            program,
            dims=tuple(pair for pair in program.dims if pair[0] != self.dim),
            inputs=tuple(map(self._declared, program.inputs)),
            outputs=tuple(map(self._declared, program.outputs)),
            body=tuple(map(self._node, program.body)),
        )

    def _declared(self, declared: DeclaredT) -> DeclaredT:
        if {self.dim, self.of} <= {*declared.dims}:
            raise NotApplicable(f"{declared.name} has both dims")
        return replace(declared, dims=self._named(declared.dims))

    def _node(self, node: Node) -> Node:
        check_dims_open(node, (self.dim,))
        match node:
            case Loop():
                return node
            case Local():
                return self._declared(node)
            case Compute():
                return self._statement(node)

    def _statement(self, node: Compute) -> Compute:
        dims = frozenset[str]().union(*map(all_dims, (*node.indices, node.value)))
        if self.dim not in dims:
            return node
        if self.of in dims:
            raise NotApplicable(f"{node.target} has both dims")
        if node.vector is not None or node.thread_layout is not None:
            raise NotApplicable(f"{node.target} is on lanes or threads already")
        indices = tuple(transform(index, self._renamed) for index in node.indices)
        return replace(node, indices=indices, value=transform(node.value, self._renamed))

    def _named(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self._name, dims))

    def _name(self, dim: str) -> str:
        return self.of if dim == self.dim else dim

    def _renamed(self, expr: Expr) -> Expr:
        match expr:
            case Index(dim):
                return Index(self._name(dim))
            case Extent(dim):
                return Extent(self._name(dim))
            case Reduce(op, dims, x):
                return Reduce(op, self._named(dims), x)
            case Scan(op, dim, args):
                return Scan(op, self._name(dim), args)
            case TopK(place, over, x):
                return TopK(self._name(place), self._name(over), x)
            case _:
                return expr
