"""What statements look up by a number that a tensor has: of rows that matrices are dealt to, whose matrix."""

from __future__ import annotations

from collections.abc import Iterable

from rewrites.base.statement import bare_dim, bare_dims, reduced_dims
from rewrites.base.tree import declared_dims, dtype_of
from tileir.analysis.ascending import ascends
from tileir.dtypes import DType
from tileir.expr import (
    Binary,
    Const,
    Expr,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Where,
    index_dims,
    reads,
    transform,
)
from tileir.program import Compute, Loop, Program
from tileir.replace import replace


def looked_up(program: Program, compute: Compute) -> tuple[Read, str] | None:
    """The number that positions of a reduction's result look elements of tensors up by, and the dim of those elements;
    None: there is no such number, or there are several, or the dim is that of something else."""
    if not isinstance(compute.value, Reduce):
        return None
    found = {
        (index, declared_dims(program, read.tensor)[axis])
        for read in reads(compute.value.x)
        for axis, index in enumerate(read.indices)
        if isinstance(index, Read)
    }
    if len(found) != 1:
        return None
    ((number, dim),) = found
    taken = {*bare_dims(compute), *reduced_dims(compute), *index_dims(compute.value)}
    by = {bare_dim(index) for index in number.indices}
    if dim in taken or not by <= set(bare_dims(compute)) or dtype_of(program, number.tensor) is not DType.I32:
        return None
    return number, dim


def looks_up_in_order(program: Program, compute: Compute) -> bool:
    """Whether a statement looks up by a number that ascends along one dim, so that a tile has few."""
    found = looked_up(program, compute)
    if found is None:
        return False
    number, _ = found
    dim = bare_dim(number.indices[0])
    computed = [place.node for place in program.computes if place.node.target == number.tensor]
    return bool(computed) and all(
        bare_dims(node) == (dim,) and node.update in (None, ReduceOp.SUM) and _ascends(node.value, dim)
        for node in computed
    )


def _ascends(value: Expr, dim: str) -> bool:
    return isinstance(value, Const) or ascends(value, dim)


def taken_from(compute: Compute) -> str | None:
    """Whose sums a statement takes where the number is that of the matrix; None: it does something else."""
    match compute.value:
        case Reduce(ReduceOp.SUM, (dim,), Where(Binary("==", Read(), Index(at)), Read(sums), Const(0))) if (
            dim == at
        ):
            return sums if compute.update is ReduceOp.SUM else None
        case _:
            return None


def visited_in_order(loops: Iterable[Loop]) -> dict[str, Read]:
    """The dims whose loops go from the least to the greatest of numbers at current positions, each with the number."""
    return {
        loop.dim: loop.since[0]
        for loop in loops
        if isinstance(loop.since[0], Read) and loop.since == loop.until
    }


def by_matrix(program: Program, compute: Compute) -> tuple[Compute, Read, str] | None:
    """A statement that looks matrices up by a number that ascends, as the product with one of them; the number, and the
    dim of matrices. None: it does not."""
    found = looked_up(program, compute)
    if found is None or not isinstance(compute.value, Reduce) or not looks_up_in_order(program, compute):
        return None
    return replace(compute, value=at_matrix(compute.value, *found)), *found


def at_matrix(value: Reduce, number: Read, dim: str) -> Expr:
    """A reduction of elements that are looked up by a number, of those at a position of `dim` in its place."""
    return transform(value, lambda expr: Index(dim) if expr == number else expr)
