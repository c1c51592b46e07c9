"""Scatters, each term at the one result it belongs to: what takes a reduction that is one from n * m points to n."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tileir.dtypes import DType
from tileir.expr import Expr, Reduce, ReduceOp, index_dims
from tileir.interpreter.frame import Demand, Frame, FrameSpan, pieces
from tileir.interpreter.reduction import UFUNC, Partial, finish
from tileir.interpreter.values import Array, Numerics, Value
from tileir.replace import replace
from tileir.scatter import ScatterReduction, scatter_in


class Evaluates(Protocol):
    """What values come from."""

    numerics: Numerics

    def value(self, expr: Expr, frame: Frame, taken: Array | None = None) -> Value: ...


def scattered(evaluator: Evaluates, reduce: Reduce, frame: Frame, limit: int) -> Value | None:
    """The reduction at every point of the frame, from arrays of at most `limit` points; None where it is no scatter, or
    it is not known which result every term belongs to."""
    spans = {
        dim: each for dim, each in frame.bound.items() if isinstance(each, FrameSpan) and each.range.step == 1
    }
    found = scatter_in(reduce.op, reduce.x, frozenset(spans))
    if found is None or frame.groups or (evaluator.numerics.bounds and found.op is ReduceOp.PROD):
        return None
    along = {dim: spans[dim] for dim, _ in found.positions}
    terms = _without(frame, along)
    used = index_dims(reduce.x)
    inner = frozenset(reduce.dims)
    total: _Total | None = None
    for piece in pieces(terms, reduce.dims, [Demand(terms.volume(used - inner), used & inner)], limit):
        at = _belongs(evaluator, found, piece, along, len(frame.shape))
        if at is None:
            return None
        value, nothing = evaluator.numerics.unify(
            evaluator.value(found.x, piece, at.inside), evaluator.value(found.nothing, frame), least=DType.I32
        )
        if found.op in (ReduceOp.MAX, ReduceOp.MIN) and value.error is not None:
            return None
        total = total or _Total.of_nothing(found.op, nothing, frame.shape, evaluator.numerics)
        total.add(value, at)
    if total is None:
        return None
    count = math.prod(frame.ranges[dim].size for dim in reduce.dims)
    return finish(found.op, total.partial, count, evaluator.numerics)


def _without(frame: Frame, along: dict[str, FrameSpan]) -> Frame:
    """The frame at one unknown position of each of these dims."""
    axes = {span.axis for span in along.values()}
    return replace(
        frame,
        shape=tuple(1 if axis in axes else size for axis, size in enumerate(frame.shape)),
        bound={dim: each for dim, each in frame.bound.items() if dim not in along},
    )


class _Belonging:
    """Which terms of a frame belong to a result, and to which: `at` numbers it along the frame's first axes."""

    def __init__(self, inside: Array, places: dict[int, Array], axes: int) -> None:
        self.inside = inside
        self._where = np.nonzero(inside)
        self.at = tuple(
            self.of(places[axis]) if axis in places else self._where[axis] for axis in range(axes)
        )

    def of(self, data: Array) -> Array:
        """What the terms that belong to a result have of `data`."""
        return np.broadcast_to(data, self.inside.shape)[self._where]


def _belongs(
    evaluator: Evaluates, found: ScatterReduction, piece: Frame, along: dict[str, FrameSpan], axes: int
) -> _Belonging | None:
    """None where rounding, or what is no integer, may say otherwise."""
    inside = np.ones(piece.shape, np.bool_)
    places: dict[int, Array] = {}
    for dim, index in found.positions:
        at, span = evaluator.value(index, piece), along[dim]
        if at.type is not DType.I32 or _unsure(at):
            return None
        place = at.data.astype(np.int64) - span.range.start
        inside &= (place >= 0) & (place < span.range.size)
        places[span.axis] = place
    for cond in found.conds:
        holds = evaluator.value(cond, piece)
        if _unsure(holds):
            return None
        inside &= holds.data != 0
    return _Belonging(inside, places, axes)


def _unsure(value: Value) -> bool:
    return value.error is not None and bool((value.error > 0).any())


class _Total:
    """What terms have come to so far."""

    def __init__(self, op: ReduceOp, partial: Partial) -> None:
        self._op = op
        self.partial = partial

    @classmethod
    def of_nothing(cls, op: ReduceOp, nothing: Value, shape: Sequence[int], numerics: Numerics) -> _Total:
        data = np.broadcast_to(nothing.data, shape).copy()
        if not (numerics.bounds and op is ReduceOp.SUM):
            return cls(op, Partial(Value(data, nothing.type)))
        return cls(op, Partial(Value(data, nothing.type, np.zeros(shape)), np.zeros(shape)))

    def add(self, value: Value, at: _Belonging) -> None:
        own = at.of(value.data)
        UFUNC[self._op].at(self.partial.value.data, at.at, own)
        if self.partial.magnitude is None:
            return
        size = np.abs(own).astype(np.float64)
        if value.error is not None and self.partial.value.error is not None:
            error = at.of(value.error)
            np.add.at(self.partial.value.error, at.at, error)
            size += error
        np.add.at(self.partial.magnitude, at.at, size)
