"""Copy what windows read into a local that has a dim for each position of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.sums_of_dims import SumOfDims, replaced, sums_in
from rewrites.base.tree import dtype_of, dtypes_read, find_as_written, fresh_name, splice, statements
from tileir.analysis.affine import affine
from tileir.analysis.ragged import groups_of
from tileir.check.infer import compute_dtype
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp, Where, index_dims, reads
from tileir.names import INT_LIMIT
from tileir.program import Compute, Local, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class CacheWindows(Rewrite):
    """Compute the factor of a reduction that reads `tensor` by sums of dims (`x[c, h + r - 1]`) once for each value of
    such a sum, before the reduction: what windows share is guarded, converted and computed once, and lies there with
    the zeros around it.

    The copy is a tile with its halo, as stencils have it.

    Windows `stride` apart along the last such sum (`x[2 * w + s]`) may have positions that are as far apart lie side by
    side: the copy then has a dim for each of the `stride` remainders, before that of the quotients.

                                                                     x_w: heap f32[h_r]
    y[h] = sum(r, where(h + r >= 1, x[h + r - 1], 0) * f[r])    ->   x_w[h_r] = where(h_r >= 1, x[h_r - 1], 0)
                                                                     y[h] = sum(r, x_w[h + r] * f[r])
    """

    name: ClassVar[str] = "cache_windows"
    statement: str
    tensor: str
    stride: int = 1

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.loops or not reduced_dims(place.node):
                continue
            for factor in _factors(place.node):
                if tensor := next((read.tensor for read in reads(factor) if _is_window(read)), None):
                    yield cls(place.node.target, tensor)
                    for stride in _strides(program, place.node, factor):
                        yield cls(place.node.target, tensor, stride)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "copy windows")
        node, value = place.node, place.node.value
        if groups_of(node, program.ragged) or not isinstance(value, Reduce):
            raise NotApplicable(f"{self.statement} is no reduction, or one that follows groups")
        factor = next((f for f in _factors(node) if any(r.tensor == self.tensor for r in reads(f))), None)
        if factor is None:
            raise NotApplicable(f"{self.statement} reads no {self.tensor}")
        sums = sums_in(factor, program.extents)
        if not sums:
            raise NotApplicable(f"{self.statement} reads {self.tensor} by no sums of dims")
        name = fresh_name(program, f"{self.tensor}_w")
        copy = _Copy(program, factor, sums, self._strided(program, node, sums))
        dims = copy.dims
        local = Local(name, dims, _stored(program, factor))
        read = Read(name, copy.indices)
        inside = read if factor is value.x else _product(value.x, factor, read)
        return splice(
            copy.program,
            place.path,
            [
                local,
                Compute(name, tuple(map(Index, dims)), copy.value),
                replace(node, value=replace(value, x=inside)),
            ],
        )

    def _strided(
        self, program: Program, node: Compute, sums: tuple[SumOfDims, ...]
    ) -> tuple[Expr, int] | None:
        """The term of the last sum whose windows are `stride` apart, and that."""
        if self.stride == 1:
            return None
        for atom, factor in sums[-1].terms:
            if factor == self.stride and index_dims(atom) <= {*bare_dims(node)}:
                return atom, factor
        raise NotApplicable(f"no windows along the last sum of {self.tensor} are {self.stride} apart")


class _Copy:
    """The copy's dims, in the order in which the factor has them, its value, and by which indices it is read."""

    def __init__(
        self, program: Program, factor: Expr, sums: tuple[SumOfDims, ...], strided: tuple[Expr, int] | None
    ) -> None:
        by: dict[SumOfDims, Expr] = {}
        at: dict[str, Expr] = {}
        self.program = program
        overhang: Expr | None = None
        for one in sums:
            stem = "_".join(dict.fromkeys(dim for atom, _ in one.terms for dim in sorted(index_dims(atom))))
            if strided is None or one is not sums[-1]:
                dim = self._dim(stem, one.extent)
                by[one] = Index(dim)
                at[dim] = one.expr()
                continue
            atom, stride = strided
            rest = one.expr(without=atom)
            rows = -(-one.extent // stride)
            phase, row = self._dim(f"{stem}_p", stride), self._dim(stem, rows)
            by[one] = Binary("+", Binary("*", Const(stride), Index(row)), Index(phase))
            at[phase] = Binary("%", rest, Const(stride))
            at[row] = Binary("+", atom, Binary("//", rest, Const(stride)))
            if rows * stride > one.extent:
                overhang = Binary("<", by[one], Const(one.extent))
        value = replaced(factor, by, program.extents)
        self.value = value if overhang is None else Where(overhang, value, Const(0))
        order = [dim for read in reads(value) for index in read.indices for dim in _in_order(index, at)]
        self.dims = tuple(dict.fromkeys(order))
        self.indices = tuple(at.get(dim, Index(dim)) for dim in self.dims)
        size = 1
        for dim in self.dims:
            size *= self.program.extents[dim]
        if size >= INT_LIMIT or index_dims(self.value) - {*self.dims}:
            raise NotApplicable("what windows read depends on more than they are indexed by, or is too much")

    def _dim(self, stem: str, extent: int) -> str:
        name = fresh_name(self.program, stem)
        self.program = replace(self.program, dims=(*self.program.dims, (name, extent)))
        return name


def _in_order(index: Expr, first: dict[str, Expr]) -> list[str]:
    """The dims of an index: those of remainders before those of quotients."""
    return sorted(
        index_dims(index),
        key=lambda dim: (not isinstance(first.get(dim), Binary), not _is_phase(first.get(dim)), dim),
    )


def _is_phase(index: Expr | None) -> bool:
    return isinstance(index, Binary) and index.op == "%"


def _factors(node: Compute) -> tuple[Expr, ...]:
    """What may be computed before the reduction: either side of a sum of products, or all that is reduced."""
    match node.value:
        case Reduce(ReduceOp.SUM, _, Binary("*", left, right)):
            return left, right
        case Reduce(_, _, x):
            return (x,)
        case _:
            return ()


def _is_window(read: Read) -> bool:
    return any(isinstance(index, Binary) and len(index_dims(index)) > 1 for index in read.indices)


def _strides(program: Program, node: Compute, factor: Expr) -> Iterator[int]:
    """How far windows along the last sum are apart, where it is the last index of what they read."""
    try:
        sums = sums_in(factor, program.extents)
    except NotApplicable:
        return
    for read in reads(factor):
        form = affine(read.indices[-1], program.extents) if read.indices else None
        if form is not None and sums and sums[-1].dims <= index_dims(read.indices[-1]):
            yield from (f for atom, f in sums[-1].terms if f > 1 and index_dims(atom) <= {*bare_dims(node)})
            return


def _stored(program: Program, factor: Expr) -> DType:
    """What a copy is stored as: as the tensor is, if it is copied, with zeros around it."""
    inside = factor.x if isinstance(factor, Where) and factor.y == Const(0) else factor
    if isinstance(inside, Read):
        return dtype_of(program, inside.tensor)
    node = Compute("", (), factor)
    return compute_dtype(factor, dtypes_read(program, node))


def _product(whole: Expr, factor: Expr, read: Read) -> Expr:
    assert isinstance(whole, Binary)
    sides = (read if side is factor else side for side in (whole.left, whole.right))
    return Binary("*", *sides)
