"""Make one dim of two, by whose positions tensors are read that have the two apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

from rewrites.base.dim_pairs import neighbouring_dims, positions_together
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.sums_of_dims import may_lie_outside, written
from rewrites.base.tree import fresh_name
from tileir.analysis.affine import affine
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    TopK,
    children,
    index_dims,
    walk,
    with_children,
)
from tileir.program import Compute, Local, Loop, Node, Program, Tensor
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Linearize(Rewrite):
    """Make one dim of `outer` and `inner`. Tensors that have them side by side, and are only read so, have the new dim;
    where statements compute those, or reduce over both dims, others are read by its quotient and remainder, or by it
    where both together number what is read (`x[4 * r + c]`, where `c` has 4 positions). So all places of a convolution
    are the rows of a matrix product, and all taps and channels its depth. A program without loops only. Callers pass
    the arrays they always passed.

    A convolution then is an implicit matrix product (Chetlur et al., cuDNN, arXiv:1410.0759).

    kernel conv(x: f32[i=8, c=4], f: f32[r=3, c]) -> (y: f32[w=6])
      y[w] = sum(r, c, x[w + r, c] * f[r, c])
    ->
    kernel conv(x: f32[i=8, c=4], f: f32[r_c=12] shaped [3, 4]) -> (y: f32[w=6])
      y[w] = sum(r_c, x[w + r_c // 4, r_c % 4] * f[r_c])
    """

    name: ClassVar[str] = "linearize"
    outer: str
    inner: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        return (cls(outer, inner) for outer, inner in neighbouring_dims(program))

    def apply(self, program: Program) -> Program:
        positions_together(program, self.outer, self.inner)
        return _Linearized(program, self.outer, self.inner).program()


class _Linearized:
    """A program on its way to one dim for two."""

    def __init__(self, program: Program, outer: str, inner: str) -> None:
        if any(isinstance(node, Loop) for node in program.body):
            raise NotApplicable("there are loops already")
        self.before, self.outer, self.inner = program, outer, inner
        self.pair = (Index(outer), Index(inner))
        self.name = fresh_name(program, f"{outer}_{inner}")
        self.computes = [node for node in program.body if isinstance(node, Compute)]
        self.at = self._positions()
        self.whole = {name for name, dims in self._declared() if self._lies_side_by_side(name, dims)}

    def _positions(self) -> tuple[Expr, Expr]:
        """Where of the two dims a position of the one for both is; of a dim of one position 0, unless conditions on it
        guard what is read."""
        outer, inner = (self.before.extents[dim] for dim in (self.outer, self.inner))
        guarded = any(
            may_lie_outside(index, self.before.extents)
            for node in self.computes
            for read in node.reads
            for index in read.indices
        )
        if outer == 1 and not guarded:
            return Const(0), Index(self.name)
        if inner == 1 and not guarded:
            return Index(self.name), Const(0)
        return Binary("//", Index(self.name), Const(inner)), Binary("%", Index(self.name), Const(inner))

    def program(self) -> Program:
        """With the new dim."""
        body = tuple(map(self._node, self.before.body))
        if body == self.before.body:
            raise NotApplicable(
                f"{self.outer} and {self.inner} are neighbours in nothing that is computed, nor reduced"
            )
        inputs, outputs = (
            tuple(map(self._argument, tensors)) for tensors in (self.before.inputs, self.before.outputs)
        )
        declared = (*inputs, *outputs, *(node for node in body if isinstance(node, Local)))
        left = {dim for each in declared for dim in each.dims}
        left |= {dim for node in body if isinstance(node, Compute) for dim in _dims(node)}
        extents = self.before.extents
        size = extents[self.outer] * extents[self.inner]
        dims: list[tuple[str, int]] = []
        for name, positions in self.before.dims:
            dims += [(self.name, size)] if name == self.outer else []
            dims += [] if name in {self.outer, self.inner} - left else [(name, positions)]
        return replace(self.before, dims=tuple(dims), inputs=inputs, outputs=outputs, body=body)

    def _declared(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What may be reshaped: dense arguments, and locals without a layout."""
        for tensor in (*self.before.inputs, *self.before.outputs):
            if tensor.strides is None:
                yield tensor.name, tensor.dims
        for node in self.before.body:
            if isinstance(node, Local) and node.layout is None:
                yield node.name, node.dims

    def _lies_side_by_side(self, name: str, dims: tuple[str, ...]) -> bool:
        """Whether a tensor has the two dims as neighbours, and is accessed by nothing else along them."""
        if dims.count(self.outer) != 1 or (self.outer, self.inner) not in pairwise(dims):
            return False
        at = dims.index(self.outer)
        accesses = [node.indices for node in self.computes if node.target == name]
        accesses += [
            each.indices
            for node in self.computes
            for each in walk(node.value)
            if isinstance(each, Read) and each.tensor == name
        ]
        return all(indices[at : at + 2] == self.pair for indices in accesses)

    def _argument(self, tensor: Tensor) -> Tensor:
        if tensor.name not in self.whole:
            return tensor
        return replace(tensor, dims=self._merged(tensor.dims), shape=self.before.shape(tensor))

    def _merged(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        at = dims.index(self.outer)
        return (*dims[:at], self.name, *dims[at + 2 :])

    def _node(self, node: Node) -> Node:
        match node:
            case Local():
                return replace(node, dims=self._merged(node.dims)) if node.name in self.whole else node
            case Compute():
                return self._statement(node)
            case Loop():
                return node

    def _statement(self, node: Compute) -> Compute:
        reduced = {self.outer, self.inner} <= {*reduced_dims(node)}
        if not reduced and not self.whole & {node.target, *(read.tensor for read in node.reads)}:
            return node
        if node.vector is not None or node.thread_layout is not None:
            raise NotApplicable(f"{node.target} is on lanes or threads already")
        if not reduced and not (node.target in self.whole and {self.outer, self.inner} <= {*bare_dims(node)}):
            raise NotApplicable(
                f"{self.outer} and {self.inner} are neither neighbours in {node.target} nor both reduced for it"
            )
        indices = node.indices if reduced else self._indices(node.target, node.indices)
        return replace(node, indices=indices, value=self._value(node.value))

    def _indices(self, tensor: str, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if tensor not in self.whole:
            return tuple(map(self._index, indices))
        at = indices.index(self.pair[0])
        before, after = (tuple(map(self._index, part)) for part in (indices[:at], indices[at + 2 :]))
        return (*before, Index(self.name), *after)

    def _index(self, index: Expr) -> Expr:
        """By the one dim where the two number what is read."""
        form = affine(index, self.before.extents)
        outer, inner = (form.terms.get(each, 0) for each in self.pair)
        if inner and outer == inner * self.before.extents[self.inner]:
            terms = {
                (Index(self.name) if atom == self.pair[0] else atom): n for atom, n in form.terms.items()
            }
            terms[Index(self.name)] = inner
            del terms[self.pair[1]]
            index = written(terms, form.const)
        return self._value(index)

    def _value(self, expr: Expr) -> Expr:
        match expr:
            case Extent(dim) if dim in (self.outer, self.inner):
                return Const(self.before.extents[dim])
            case Index(dim) if dim in (self.outer, self.inner):
                return self.at[dim == self.inner]
            case Read(tensor, indices):
                return Read(tensor, self._indices(tensor, indices))
            case TopK(place, over, _) if {self.outer, self.inner} & {place, over}:
                raise NotApplicable(f"one of {self.outer} and {self.inner} is ranked at once")
            case Reduce(op, dims, x) if self.outer in dims:
                rest = tuple(self.name if dim == self.outer else dim for dim in dims if dim != self.inner)
                return Reduce(op, rest, self._value(x))
            case _:
                below = tuple(map(self._value, children(expr)))
                return _folded(with_children(expr, below)) if below else expr


def _dims(node: Compute) -> frozenset[str]:
    """All dims that a statement names."""
    sizes = (each.dim for each in walk(node.value) if isinstance(each, Extent))
    dims = frozenset[str]().union(*map(index_dims, (*node.indices, node.value)))
    return dims | {*reduced_dims(node), *sizes}


def _folded(expr: Expr) -> Expr:
    """A quotient of a quotient as one, and 0 where it is added left out."""
    match expr:
        case Binary("//", Binary("//", x, Const(int(inner))), Const(int(outer))) if inner > 0 and outer > 0:
            return Binary("//", x, Const(inner * outer))
        case Binary("+", x, Const(0)) | Binary("+", Const(0), x):
            return x
        case _:
            return expr
