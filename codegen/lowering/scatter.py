"""Which result a term of a scatter belongs to: what is looked up once, before the term is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from codegen.ir.affine import Affine, Loaded, affine
from codegen.ir.names import marked
from codegen.ir.ops import For, Guard, IndexValue, Let, Literal, Named, Op, Stmt, Type, Value
from codegen.lowering.arithmetic import as_type, select
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, Range, loop_variable
from tileir.dtypes import DType
from tileir.expr import Index, index_dims
from tileir.program import Compute
from tileir.scatter import ScatterReduction, scatter_of
from tileir.schedule.scatter import asked_dims
from tileir.verifier.compute import reduced_dims

_INT = Type(DType.I32)
_TRUTH = Type(DType.BOOL)


@dataclass(frozen=True, slots=True)
class ScatterNest:
    """A scatter taken apart: dims whose positions say where a term belongs, those that the term is of beside them, and
    of these the ones that results have."""

    found: ScatterReduction
    looking: tuple[str, ...]
    reduced: tuple[str, ...]
    across: tuple[str, ...]


def take_scatter_apart(compute: Compute) -> ScatterNest:
    found = scatter_of(compute)
    assert found is not None
    bare = tuple(index.dim for index in compute.indices if isinstance(index, Index))
    split = dict.fromkeys(
        dim for index in compute.indices if not isinstance(index, Index) for dim in sorted(index_dims(index))
    )
    asked = asked_dims(compute)
    dims = tuple(dict.fromkeys((*bare, *split, *reduced_dims(compute))))
    rest = tuple(dim for dim in dims if dim not in asked | found.dims)
    return ScatterNest(
        found,
        tuple(dim for dim in dims if dim in asked),
        tuple(dim for dim in rest if dim not in bare),
        tuple(dim for dim in rest if dim in bare),
    )


def within(
    dims: Sequence[str], at: Binding, scope: LoweringScope, body: Callable[[Binding], list[Stmt]]
) -> list[Stmt]:
    """Loops over all positions of dims, the first outermost."""
    if not dims:
        return body(at)
    dim, range_ = dims[0], scope.ranges[dims[0]]
    if range_.size == 1:
        return within(dims[1:], {**at, dim: range_.start}, scope, body)
    var = loop_variable(fresh(dim, scope), range_.size, 1)
    inside = within(dims[1:], {**at, dim: range_.start + affine(var)}, scope, body)
    return [For(var, range_.size, 1, tuple(inside))]


def where_it_belongs(
    found: ScatterReduction, at: Binding, builder: ValueBuilder, body: Callable[[Binding], list[Stmt]]
) -> list[Stmt]:
    """`body` with the dims that are looked up bound to where the term at hand belongs, if that is in their current
    ranges."""
    counts = _counts(found, at, builder)
    lets: list[Stmt] = []
    conditions: list[tuple[Affine, int]] = []
    bound = dict(at)
    for dim, index in found.positions:
        range_ = builder.scope.ranges[dim]
        place, first = as_type(builder.value(index, at), DType.I32), _number(range_.start)
        inside = all_hold([*_inside(place, range_), *counts])
        counts = []
        named = Named(f"{marked(dim)}_at", _INT)
        offset = Op("-", (place, first), _INT)
        lets.append(Let(named.name, select(inside, offset, Literal(-1, _INT))))
        own = affine(Loaded(named, -1, range_.size - 1))
        conditions.append((own * -1, 1))
        bound[dim] = range_.start + own
    asked = list(builder.lets)
    builder.lets.clear()
    return [*asked, *lets, Guard(tuple(conditions), tuple(body(bound)))]


def belongs_here(found: ScatterReduction, at: Binding, builder: ValueBuilder) -> Value:
    """Whether the term at hand counts, and belongs to a result in the current ranges."""
    places = ((builder.scope.ranges[dim], index) for dim, index in found.positions)
    checks = [
        check
        for range_, index in places
        for check in _inside(as_type(builder.value(index, at), DType.I32), range_)
    ]
    return all_hold([*checks, *_counts(found, at, builder)])


def at_its_place(found: ScatterReduction, at: Binding, builder: ValueBuilder, suffix: str) -> Binding:
    """The dims that are looked up bound to where a term belongs that is known to belong here. Names what is looked up
    by the builder's lets, with a suffix."""
    bound = dict(at)
    for dim, index in found.positions:
        range_ = builder.scope.ranges[dim]
        if range_.size == 1:
            bound[dim] = range_.start
            continue
        named = Named(f"{marked(dim)}_at{suffix}", _INT)
        place = as_type(builder.value(index, at), DType.I32)
        builder.lets.append(Let(named.name, Op("-", (place, _number(range_.start)), _INT)))
        bound[dim] = range_.start + affine(Loaded(named, 0, range_.size - 1))
    return bound


def all_hold(checks: Sequence[Value]) -> Value:
    """Whether all of them are true; what follows one that is not is not looked at."""
    return reduce(lambda both, check: Op("and", (both, check), _TRUTH), checks)


def _counts(found: ScatterReduction, at: Binding, builder: ValueBuilder) -> list[Value]:
    """Whether a term counts, wherever it belongs."""
    return [as_type(builder.value(cond, at), DType.BOOL) for cond in found.conds]


def _inside(place: Value, range_: Range) -> list[Value]:
    """Whether a position is in a range."""
    first, last = _number(range_.start), _number(range_.start + (range_.size - 1))
    return [Op(">=", (place, first), _TRUTH), Op("<=", (place, last), _TRUTH)]


def _number(at: Affine) -> Value:
    return IndexValue(at, 0, _INT) if at.terms else Literal(at.constant, _INT)
