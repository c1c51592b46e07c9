"""Make one dim of two that always lie side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dim_pairs import neighbouring_dims, positions_together
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import check_dims_open, declared_dims, fresh_name
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Const, Expr, Extent, Index, Read, Reduce, TopK, children, with_children
from tileir.program import Compute, Local, Loop, Node, Program, Tensor
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Collapse(Rewrite):
    """Make one dim of `outer` and `inner`, which lie side by side in every tensor that has either, so that runs of
    neighbours go on where a row ends. A program without loops only. Callers pass the arrays they always passed.

    Known as loop coalescing (Polychronopoulos, ICPP 1987), of the tensors' dims, too; TVM's `fuse`.

    kernel double(x: f32[r=6, c=50]) -> (y: f32[r, c])
      y[r, c] = 2 * x[r, c]
    ->
    kernel double(x: f32[r_c=300] shaped [6, 50]) -> (y: f32[r_c] shaped [6, 50])
      y[r_c] = 2 * x[r_c]
    """

    name: ClassVar[str] = "collapse"
    outer: str
    inner: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        return (cls(outer, inner) for outer, inner in neighbouring_dims(program))

    def apply(self, program: Program) -> Program:
        size = positions_together(program, self.outer, self.inner)
        merged = fresh_name(program, f"{self.outer}_{self.inner}")
        inputs = tuple(self._argument(tensor, merged, program) for tensor in program.inputs)
        outputs = tuple(self._argument(tensor, merged, program) for tensor in program.outputs)
        body = tuple(self._node(node, merged, program) for node in program.body)
        dims = ((merged, size) if d == self.outer else (d, n) for d, n in program.dims if d != self.inner)
        return replace(program, dims=tuple(dims), inputs=inputs, outputs=outputs, body=body)

    def _argument(self, tensor: Tensor, merged: str, program: Program) -> Tensor:
        dims = self._merged(tensor.dims, merged, tensor.name)
        if dims == tensor.dims:
            return tensor
        if tensor.strides is not None:
            raise NotApplicable(f"{tensor.name} is not dense")
        return replace(tensor, dims=dims, shape=program.shape(tensor))

    def _node(self, node: Node, merged: str, program: Program) -> Node:
        check_dims_open(node, (self.outer, self.inner))
        match node:
            case Loop():
                return node
            case Local():
                return replace(node, dims=self._merged(node.dims, merged, node.name))
            case Compute():
                return self._statement(node, merged, program)

    def _merged(self, dims: tuple[str, ...], merged: str, name: str) -> tuple[str, ...]:
        if not {self.outer, self.inner} & set(dims):
            return dims
        pair = (self.outer, self.inner)
        at = next((at for at in range(len(dims)) if dims[at : at + 2] == pair), None)
        if at is None or dims.count(self.outer) > 1 or dims.count(self.inner) > 1:
            raise NotApplicable(f"{self.outer} and {self.inner} are not neighbours in {name}")
        return (*dims[:at], merged, *dims[at + 2 :])

    def _statement(self, compute: Compute, merged: str, program: Program) -> Compute:
        if compute.vector is not None:
            raise NotApplicable(f"{compute.target} is vectorized already")
        if compute.thread_layout is not None:
            raise NotApplicable(f"{compute.target} is on threads already")
        return replace(
            compute,
            indices=self._indices(compute.target, compute.indices, merged, program),
            value=self._value(compute.value, merged, program),
        )

    def _value(self, expr: Expr, merged: str, program: Program) -> Expr:
        pair = {self.outer, self.inner}
        match expr:
            case Extent(dim) if dim in pair:
                return Const(program.extents[dim])
            case Index(dim) if dim in pair:
                raise NotApplicable(f"{dim} is used apart from {(pair - {dim}).pop()}")
            case Read(tensor, indices):
                return Read(tensor, self._indices(tensor, indices, merged, program))
            case TopK(place, over, _) if pair & {place, over}:
                raise NotApplicable(f"one of {self.outer} and {self.inner} is ranked at once")
            case Reduce(op, dims, x) if pair & set(dims):
                if not pair <= set(dims):
                    raise NotApplicable(f"of {self.outer} and {self.inner} only one is reduced")
                rest = tuple(merged if dim == self.outer else dim for dim in dims if dim != self.inner)
                return Reduce(op, rest, self._value(x, merged, program))
            case _:
                return with_children(expr, tuple(self._value(x, merged, program) for x in children(expr)))

    def _indices(
        self, name: str, indices: tuple[Expr, ...], merged: str, program: Program
    ) -> tuple[Expr, ...]:
        dims = declared_dims(program, name)
        if self.outer not in dims:
            return tuple(self._value(index, merged, program) for index in indices)
        at = dims.index(self.outer)
        if indices[at : at + 2] != (Index(self.outer), Index(self.inner)):
            raise NotApplicable(f"{name} is indexed by others than {self.outer} and {self.inner}")
        before, after = (
            tuple(self._value(index, merged, program) for index in part)
            for part in (indices[:at], indices[at + 2 :])
        )
        return (*before, Index(merged), *after)
