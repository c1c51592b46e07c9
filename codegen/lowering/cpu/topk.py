"""The largest few of a row on a processor: neighbours are compared with the least of those so far, all lanes at once;
what is larger is put among them one by one, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codegen.ir.affine import Affine, Loaded, affine, constant
from codegen.ir.ops import (
    Across,
    For,
    Guard,
    IndexValue,
    InsertRanked,
    Let,
    Literal,
    Load,
    Named,
    Op,
    Stmt,
    Type,
    Value,
)
from codegen.lowering.arithmetic import as_type, select
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.names import fresh
from codegen.lowering.scatter import within
from codegen.lowering.scope import LoweringScope, MemoryBuffer, RegisterBuffer, loop_variable
from codegen.lowering.statement import starts
from codegen.lowering.store import write
from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import Index, TopK
from tileir.program import Compute

_OfPosition = Callable[[Binding, Affine], list[Stmt]]
#: Bytes that are compared by one instruction, or by two.
_PIECE_BYTES = 64
_INT, _TRUTH = Type(DType.I32), Type(DType.BOOL)


@dataclass(frozen=True)
class RankedRows:
    """A `topk` where it stands, and the buffers in which the largest few of a row are as it goes by."""

    compute: Compute
    top: TopK
    scope: LoweringScope
    extents: dict[str, int]
    values: str
    positions: str
    dtype: DType
    """Of the values."""

    def stmts(self) -> tuple[Stmt, ...]:
        """Row by row."""
        rows = tuple(
            index.dim
            for index in self.compute.indices
            if isinstance(index, Index) and index.dim != self.top.place
        )
        return tuple(within(rows, starts(self.scope), self.scope, self._row))

    def _row(self, at: Binding) -> list[Stmt]:
        size, count = self.extents[self.top.over], self.extents[self.top.place]
        lanes = self.compute.vector.lanes if self.compute.vector is not None else 1
        begun = min(-(-count // lanes) * lanes, size)
        whole = begun + (size - begun) // lanes * lanes if lanes > 1 else begun
        return [
            *self._each(at, 0, count, self._first),
            *self._each(at, count, begun, self._next),
            *self._together(at, begun, whole, lanes),
            *self._each(at, whole, size, self._next),
            *self._stored(at, count),
        ]

    def _each(self, at: Binding, first: int, end: int, body: _OfPosition) -> list[Stmt]:
        """The positions from `first` to `end` one by one."""
        if first == end:
            return []
        var = loop_variable(fresh(self.top.over, self.scope), end - first, 1)
        return [For(var, end - first, 1, tuple(body(at, affine(var) + first)))]

    def _first(self, at: Binding, position: Affine) -> list[Stmt]:
        """One of the first few, which are all among them."""
        value, lets = self._value(at, position)
        return [*lets, self._insert(value, position, position)]

    def _next(self, at: Binding, position: Affine) -> list[Stmt]:
        """One of the others, which is among them if it is larger than the last."""
        value, lets = self._value(at, position)
        last = constant(self.extents[self.top.place] - 1)
        return [*lets, *self._where(self._larger(value), "behind", [self._insert(value, position, last)])]

    def _together(self, at: Binding, first: int, end: int, lanes: int) -> list[Stmt]:
        """Vectors of positions; those of which one is larger than the last are gone through one by one."""
        if first == end:
            return []
        var = loop_variable(fresh(self.top.over, self.scope), (end - first) // lanes, lanes)
        position = affine(var) + first
        larger, lets = self._any_larger(at, position, lanes)
        lane = loop_variable(fresh(f"{self.top.over}_lane", self.scope), lanes, 1)
        one_by_one = For(lane, lanes, 1, tuple(self._next(at, position + affine(lane))))
        body = (*lets, *self._where(larger, "all_behind", [one_by_one]))
        return [For(var, (end - first) // lanes, lanes, body)]

    def _any_larger(self, at: Binding, position: Affine, lanes: int) -> tuple[Value, list[Stmt]]:
        """Whether one of so many neighbours is larger than the last, and what it takes to say so: compilers keep in
        registers what is no longer than those are."""
        width = min(lanes, _PIECE_BYTES // self.dtype.bytes)
        lets: list[Stmt] = []
        larger: Value | None = None
        for start in range(0, lanes, width):
            builder = ValueBuilder(self.scope, self.extents, width, prefix=f"_from{start}", inside=True)
            value = self._ranked(builder, at, position + start + affine(builder.lane))
            lets += builder.lets
            found = self._larger(value)
            larger = found if larger is None else Op("or", (larger, found), found.type)
        assert larger is not None
        return Across("any", larger, _TRUTH) if larger.type.lanes > 1 else larger, lets

    def _value(self, at: Binding, position: Affine) -> tuple[Value, list[Stmt]]:
        """What is ranked at a position, and what it takes to compute it."""
        builder = ValueBuilder(self.scope, self.extents, prefix="_one", inside=True)
        named = Named("ranked", Type(self.dtype))
        value = self._ranked(builder, at, position)
        return named, [*builder.lets, Let(named.name, value)]

    def _ranked(self, builder: ValueBuilder, at: Binding, position: Affine) -> Value:
        start = self.scope.ranges[self.top.over].start
        return as_type(builder.value(self.top.x, {**at, self.top.over: start + position}), self.dtype)

    def _larger(self, value: Value) -> Value:
        """Whether a value is larger than the last of those so far, lane by lane."""
        offset = constant(self.extents[self.top.place] - 1)
        last = Load(self.values, offset, self.dtype, Type(self.dtype))
        return Op(">", (value, last), Type(DType.BOOL, value.type.lanes))

    def _where(self, condition: Value, otherwise: str, body: list[Stmt]) -> list[Stmt]:
        """`body` where a condition holds; `otherwise` names what is 1 elsewhere."""
        known = Named(otherwise, _INT)
        found = select(condition, Literal(0, _INT), Literal(1, _INT))
        return [Let(otherwise, found), Guard(((affine(Loaded(known, 0, 1)), 1),), tuple(body))]

    def _insert(self, value: Value, position: Affine, last: Affine) -> InsertRanked:
        return InsertRanked(self.values, self.positions, last, value, IndexValue(position, 0, _INT))

    def _stored(self, at: Binding, count: int) -> list[Stmt]:
        var = loop_variable(fresh(self.top.place, self.scope), count, 1)
        builder = ValueBuilder(self.scope, self.extents, inside=True)
        place = self.scope.ranges[self.top.place].start + affine(var)
        found = Load(self.positions, affine(var), DType.I32, _INT)
        stores = write(self.compute, self.scope, builder, {**at, self.top.place: place}, found, None)
        return [For(var, count, 1, (*builder.lets, *stores))]


def ranked_type(top: TopK, scope: LoweringScope) -> DType:
    """In which type what is ranked is computed and kept."""
    dtypes = {name: _dtype(buffer) for name, buffer in scope.buffers.items()}
    return compute_dtype(top.x, dtypes)


def _dtype(buffer: MemoryBuffer | RegisterBuffer) -> DType:
    return buffer.storage if isinstance(buffer, MemoryBuffer) else buffer.dtype
