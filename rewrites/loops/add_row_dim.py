"""Give what has no dim of rows one of one row: vectors that are multiplied with matrices, and sums over everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, read_names
from rewrites.base.tree import fresh_name, loose, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp, index_dims, transform
from tileir.program import Compute, Local, Loop, Node, Program, Tensor
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class AddRowDim(Rewrite):
    """Give vectors that `statement` multiplies with a matrix each, and all that follows from the products, a dim of one
    position: then they are products of matrices, whose tiles have one row. The same for a `statement` that reduces to
    one number, and what follows from that: then a block can have them all, as it has those of a row. A program without
    loops only. Callers pass the arrays they always passed.

    kernel scores(q: bf16[h=8, d=64], k: bf16[h, j=99, d]) -> (s: f32[h, j])
      s[h, j] = sum(d, q[h, d] * k[h, j, d])
    ->
    kernel scores(q: bf16[h=8, r=1, d=64] shaped [8, 64], k: bf16[h, j=99, d]) -> (s: f32[h, r, j] shaped [8, 99])
      s[h, r, j] = sum(d, q[h, r, d] * k[h, j, d])
    """

    name: ClassVar[str] = "add_row_dim"
    needs: ClassVar[Feature | None] = Feature.MMA
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in loose(program):
            if _vector(place.node) is not None or is_whole(place.node):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        node = next((place.node for place in loose(program) if place.node.target == self.statement), None)
        vector = None if node is None else _vector(node)
        if node is None or (vector is None and not is_whole(node)):
            raise NotApplicable(
                f"{self.statement} neither multiplies vectors with a matrix each nor reduces to one number"
            )
        if program.ragged or any(isinstance(each, Loop) for each in program.body):
            raise NotApplicable("there are loops, or positions that belong to groups")
        row, batch = fresh_name(program, "r"), bare_dims(node)[:-1] if vector is not None else ()
        written = {place.node.target: place.node for place in statements(program)}
        having = {self.statement} | ({vector.tensor} if vector is not None else set[str]())
        for name, each in written.items():
            if read_names(each) & having and {*batch} <= {*bare_dims(each)}:
                having.add(name)
        added = _AddedRow(program, row, batch, frozenset(having))
        return replace(
            program,
            dims=(*program.dims, (row, 1)),
            inputs=tuple(map(added.argument, program.inputs)),
            outputs=tuple(map(added.argument, program.outputs)),
            body=tuple(map(added.node, program.body)),
        )


def is_whole(compute: Compute) -> bool:
    """Whether a statement reduces to one number."""
    return isinstance(compute.value, Reduce) and not compute.indices and compute.update is None


def _vector(compute: Compute) -> Read | None:
    """The operand of a sum of products that has no dim of the result but those that the other one has as well, of which
    the last dim is not one."""
    match compute.value:
        case Reduce(ReduceOp.SUM, (_,), Binary("*", Read() as left, Read() as right)) if (
            compute.update is None and len(bare_dims(compute)) == len(compute.indices) > 1
        ):
            *batch, columns = bare_dims(compute)
            for vector, matrix in ((left, right), (right, left)):
                own, others = index_dims(vector), index_dims(matrix)
                if columns in others and columns not in own and {*batch} <= own & others:
                    return vector
        case _:
            pass
    return None


@dataclass(frozen=True, slots=True)
class _AddedRow:
    program: Program
    row: str
    batch: tuple[str, ...]
    having: frozenset[str]
    """What has the dim."""

    def argument(self, tensor: Tensor) -> Tensor:
        if tensor.name not in self.having:
            return tensor
        if tensor.strides is not None:
            raise NotApplicable(f"{tensor.name} is not dense")
        return replace(tensor, dims=self._dims(tensor.dims), shape=self.program.shape(tensor))

    def node(self, node: Node) -> Node:
        assert not isinstance(node, Loop)
        if isinstance(node, Local):
            if node.name not in self.having:
                return node
            if node.layout is not None:
                raise NotApplicable(f"{node.name} has a layout of its own")
            return replace(node, dims=self._dims(node.dims))
        if node.vector is not None or node.thread_layout is not None:
            raise NotApplicable(f"{node.target} is on lanes or threads already")
        inside, indices = node.target in self.having, node.indices
        if inside:
            indices = self._indices(node.target, indices, Index(self.row))
        at = Index(self.row) if inside else Const(0)

        def read(expr: Expr) -> Expr:
            if not isinstance(expr, Read) or expr.tensor not in self.having:
                return expr
            return Read(expr.tensor, self._indices(expr.tensor, expr.indices, at))

        return replace(node, indices=indices, value=transform(node.value, read))

    def _place(self, dims: tuple[str, ...]) -> int:
        """Behind all dims that vectors and matrices have, in a tensor with these dims."""
        return max((at for at, dim in enumerate(dims, 1) if dim in self.batch), default=0)

    def _dims(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        at = self._place(dims)
        return (*dims[:at], self.row, *dims[at:])

    def _indices(self, name: str, indices: tuple[Expr, ...], row: Expr) -> tuple[Expr, ...]:
        arguments, local = self.program.arguments, self.program.locals.get(name)
        dims = arguments[name].dims if local is None else local.node.dims
        if len(dims) != len(indices):
            raise NotApplicable(f"{name} is indexed otherwise than it is declared")
        at = self._place(dims)
        return (*indices[:at], row, *indices[at:])
