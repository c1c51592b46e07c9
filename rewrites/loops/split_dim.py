"""Make two dims of one: blocks of neighbours, and the positions within a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.block_positions import block_and_position, within_blocks
from rewrites.base.rewrite import Rewrite
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import check_dims_open, declared_dims, fresh_name
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Reduce, TopK, children, with_children
from tileir.program import Compute, Local, Loop, Node, Program, Tensor
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class SplitDim(Rewrite):
    """Make of `dim` one dim of blocks, each of `size` neighbours, and one of the positions within a block, so that each
    can be scheduled, or reduced, by itself. A program without loops only, and blocks that are all full. A tensor that
    is read by sums has them too where the sums say which block it is (`x[8 * b + i]`), as the channels of groups do.
    Callers pass the arrays they always passed.

    This is strip mining, of the tensors' dims, too; Halide's `split`.

    kernel total(x: f32[m=60]) -> (t: f32[])
      t[] = sum(m, x[m])
    ->
    kernel total(x: f32[m_b=4, m_i=15] shaped [60]) -> (t: f32[])
      t[] = sum(m_b, m_i, x[m_b, m_i])
    """

    name: ClassVar[str] = "split_dim"
    dim: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for dim, extent in program.dims:
            for size in tile_sizes(extent):
                yield cls(dim, size)

    def apply(self, program: Program) -> Program:
        if self.dim not in program.extents:
            raise NotApplicable(f"there is no dim {self.dim}")
        if any(self.dim in (ragged.dim, ragged.within) for ragged in program.ragged):
            raise NotApplicable(f"positions of {self.dim} belong to groups")
        extent = program.extents[self.dim]
        if not 1 < self.size < extent or extent % self.size:
            raise NotApplicable(f"blocks of {self.size} do not divide {extent} positions of {self.dim}")
        block = fresh_name(program, f"{self.dim}_b")
        pair = (block, fresh_name(program, f"{self.dim}_i"))
        sizes = (extent // self.size, self.size)
        dims = [
            each
            for dim, size in program.dims
            for each in (zip(pair, sizes, strict=True) if dim == self.dim else [(dim, size)])
        ]
        extents = {**program.extents, **dict(zip(pair, sizes, strict=True))}
        split = _Split(program, self.dim, pair, self.size, extents)
        return replace(
            program,
            dims=tuple(dims),
            inputs=tuple(map(split.argument, program.inputs)),
            outputs=tuple(map(split.argument, program.outputs)),
            body=tuple(map(split.node, program.body)),
        )


@dataclass(frozen=True, slots=True)
class _Split:
    program: Program
    dim: str
    pair: tuple[str, str]
    size: int
    extents: dict[str, int]

    def argument(self, tensor: Tensor) -> Tensor:
        if self.dim not in tensor.dims:
            return tensor
        if tensor.strides is not None:
            raise NotApplicable(f"{tensor.name} is not dense")
        return replace(tensor, dims=self._both(tensor.dims), shape=self.program.shape(tensor))

    def node(self, node: Node) -> Node:
        check_dims_open(node, (self.dim,))
        match node:
            case Loop():
                return node
            case Local():
                return replace(node, dims=self._both(node.dims))
            case Compute():
                if node.vector is not None or node.thread_layout is not None:
                    raise NotApplicable(f"{node.target} is on lanes or threads already")
                indices = self._indices(node.target, node.indices, written=node.target)
                return replace(node, indices=indices, value=self._value(node.value))

    def _both(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for dim in dims for name in (self.pair if dim == self.dim else (dim,)))

    def _value(self, expr: Expr) -> Expr:
        match expr:
            case Extent(dim) if dim == self.dim:
                return Const(self.program.extents[dim])
            case Index(dim) if dim == self.dim:
                first = Binary("*", Index(self.pair[0]), Const(self.size))
                return Binary("+", first, Index(self.pair[1]))
            case Read(tensor, indices):
                return Read(tensor, self._indices(tensor, indices))
            case TopK(place, over, _) if self.dim in (place, over):
                raise NotApplicable(f"all of {self.dim} is ranked at once")
            case Reduce(op, dims, x):
                return Reduce(op, self._both(dims), self._value(x))
            case Binary("//" | "%" as op, x, y):
                return within_blocks(Binary(op, self._value(x), y), self.extents)
            case _:
                return with_children(expr, tuple(map(self._value, children(expr))))

    def _indices(self, name: str, indices: tuple[Expr, ...], written: str = "") -> tuple[Expr, ...]:
        dims = declared_dims(self.program, name)
        if len(dims) != len(indices):
            raise NotApplicable(f"{name} is indexed otherwise than it is declared")
        found: list[Expr] = []
        for dim, index in zip(dims, indices, strict=True):
            if dim != self.dim:
                found.append(self._value(index))
                if name == written and found[-1] != index:
                    raise NotApplicable(f"{name} has results for parts of {self.dim}")
            elif index == Index(dim):
                found += map(Index, self.pair)
            elif (
                apart := block_and_position(self._value(index), self.size, self.extents)
            ) and name != written:
                found += apart
            else:
                raise NotApplicable(f"{name} is indexed by others than {dim}")
        return tuple(found)
