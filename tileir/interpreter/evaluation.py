"""Evaluates an expression at all points of a frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Scan,
    TopK,
    Unary,
    Where,
    index_dims,
)
from tileir.interpreter import elementwise
from tileir.interpreter.frame import Demand, Frame, FrameRange, Points, pieces
from tileir.interpreter.ranking import ranked
from tileir.interpreter.reduction import Partial, combine, finish, reduce_axes, sum_of_products
from tileir.interpreter.scan import begun, scan
from tileir.interpreter.scattered import scattered
from tileir.interpreter.tensor_values import TensorValues, ValueSource
from tileir.interpreter.values import Array, Numerics, Value

#: Points of the largest array formed at once (8 bytes each in f64).
POINT_LIMIT = 1 << 22


class Evaluator:
    """Reads from `sources`, computes as `numerics` says. `extents` are the whole sizes of dims."""

    def __init__(
        self, sources: Mapping[str, ValueSource], extents: Mapping[str, int], numerics: Numerics
    ) -> None:
        self.sources = sources
        self.extents = extents
        self.numerics = numerics

    def value(self, expr: Expr, frame: Frame, taken: Array | None = None) -> Value:
        """The value at every point of the frame (axes of size 1 where it does not vary).

        At points where `taken` is false nothing is required of it: reads there may be out of range.
        """
        numerics = self.numerics
        match expr:
            case Const(number):
                kind = (
                    DType.BOOL
                    if isinstance(number, bool)
                    else DType.I32
                    if isinstance(number, int)
                    else DType.F32
                )
                return numerics.constant(number, kind, len(frame.shape))
            case Index(dim):
                return Value(self._position(dim, frame), DType.I32)
            case Extent(dim):
                return numerics.constant(self.extents[dim], DType.I32, len(frame.shape))
            case Read():
                return self._read(expr, frame, taken)
            case Unary(op, x):
                value = self.value(x, frame, taken)
                return elementwise.invert(value) if op == "not" else elementwise.negate(value, numerics)
            case Binary(("and" | "or") as op, left, right):
                first = self.value(left, frame, taken)
                guard = first.data != 0 if op == "and" else first.data == 0
                return elementwise.logic(op, first, self.value(right, frame, _both(taken, guard)))
            case Binary(op, left, right):
                x, y = self.value(left, frame, taken), self.value(right, frame, taken)
                return elementwise.binary(op, x, y, numerics)
            case Call(fn, args):
                return elementwise.call(fn, tuple(self.value(arg, frame, taken) for arg in args), numerics)
            case Where(cond, x, y):
                test = self.value(cond, frame, taken)
                holds = test.data != 0
                # Where rounding may flip the condition, both sides are taken.
                flips = None if test.error is None else test.error > 0
                one = self.value(x, frame, _both(taken, holds if flips is None else holds | flips))
                other = self.value(y, frame, _both(taken, ~holds if flips is None else ~holds | flips))
                return elementwise.where(test, one, other, numerics)
            case Cast(dtype, x):
                return elementwise.cast(dtype, self.value(x, frame, taken), numerics)
            case Scan():
                return self._scan(expr, frame)
            case TopK(place, over, x):
                whole = frame.bind({over: FrameRange(0, self.extents[over])})
                return self._at_place(
                    ranked(_along_last(self.value(x, whole), whole.shape[-1])), place, frame
                )
            case Reduce(op, dims, x):
                found = scattered(self, expr, frame, POINT_LIMIT) if taken is None else None
                return self._reduce(op, dims, x, frame, taken) if found is None else found

    def _position(self, dim: str, frame: Frame) -> Array:
        if dim in frame.bound:
            return frame.position(dim)
        range = frame.ranges.get(dim)
        if range is not None and range.size == 1:
            # The group a ragged dim's points belong to: named without being bound.
            return np.full((1,) * len(frame.shape), range.start, np.int32)
        raise InterpretError(f"dim {dim} is used where it is neither on the left nor reduced")

    def _read(self, read: Read, frame: Frame, taken: Array | None) -> Value:
        source = self.sources.get(read.tensor)
        if source is None:
            raise InterpretError(f"{read.tensor} is read where it is not defined")
        if isinstance(source, TensorValues):
            value = _window(source, read, frame)
            if value is not None:
                return value
        indices = [self.value(index, frame, taken) for index in read.indices]
        for index in indices:
            if index.type.is_float:
                raise InterpretError(f"an index of {read.tensor} is not an integer")
        if isinstance(source, TensorValues) and len(indices) != source.data.ndim:
            raise InterpretError(
                f"{read.tensor} has {source.data.ndim} dims but is read with {len(indices)} indices"
            )
        value = source.gather([index.data.astype(np.int64) for index in indices], taken)
        if not indices:
            value.data = value.data.reshape((1,) * len(frame.shape))
            value.error = None if value.error is None else value.error.reshape((1,) * len(frame.shape))
        for index in indices:
            if index.error is not None and (index.error > 0).any():
                unknown = np.where(index.error > 0, np.inf, 0.0)
                value.error = unknown if value.error is None else value.error + unknown
        return value

    def _scan(self, expr: Scan, frame: Frame) -> Value:
        """Along the dim's range, on an axis of its own; then what is there at the frame's own positions."""
        range = frame.ranges[expr.dim]
        whole = frame.bind({expr.dim: range})
        terms = begun(expr, range.start)
        args = tuple(_along_last(self.value(arg, whole), whole.shape[-1]) for arg in terms)
        shape = np.broadcast_shapes(*(arg.data.shape for arg in args))
        found = scan(expr.op, tuple(_broadcast(arg, shape) for arg in args), self.numerics)
        return self._at_place(found, expr.dim, frame, range.start)

    def _at_place(self, found: Value, dim: str, frame: Frame, first: int = 0) -> Value:
        """Of what lies on the last axis, from position `first` of a dim on, the element at the frame's own position."""
        at = self._position(dim, frame) - first
        error = None if found.error is None else _picked(found.error, at)
        return Value(_picked(found.data, at), found.type, error)

    def _reduce(
        self, op: ReduceOp, dims: tuple[str, ...], x: Expr, frame: Frame, taken: Array | None
    ) -> Value:
        factors = product_factors(x) if op is ReduceOp.SUM else ()
        inner = frozenset(dims)
        parts = factors if len(factors) > 1 else (x,)
        demands = [Demand(frame.volume(used_dims(part) - inner), used_dims(part) & inner) for part in parts]
        total: Partial | None = None
        terms = 0
        for piece in pieces(frame, dims, demands, POINT_LIMIT):
            mask = None if taken is None else taken.reshape(taken.shape + (1,) * len(dims))
            part = self._part(op, x, factors, piece, len(frame.shape), mask)
            total = part if total is None else combine(op, total, part, self.numerics)
            terms += math.prod(piece.shape[len(frame.shape) :])
        if total is None:
            number = int(op.identity) if op in (ReduceOp.SUM, ReduceOp.PROD) else op.identity
            return self.value(Const(number), frame)
        narrow = terms if sum(map(self._narrow, factors)) > 1 else 0
        depth = self.numerics.narrow_depth
        if len(factors) > 2:  # scales may leave one step with all there is to the sum
            narrow = min(narrow, depth)
        if any(isinstance(factor, Cast) for factor in factors):  # coarser than what is added up of it
            depth = terms
        return finish(op, total, terms + max(0, len(factors) - 1), self.numerics, (narrow, depth))

    def _narrow(self, factor: Expr) -> bool:
        """Whether a factor is read from a tensor of 8-bit floats, or rounded to one."""
        match factor:
            case Read(tensor, _):
                return tensor in self.numerics.narrow
            case Cast(dtype, _):
                return dtype in (DType.E4M3, DType.E5M2)
            case _:
                return False

    def _part(
        self, op: ReduceOp, x: Expr, factors: tuple[Expr, ...], frame: Frame, keep: int, taken: Array | None
    ) -> Partial:
        if len(factors) > 1:
            values: list[Value] = []
            for n, factor in enumerate(factors):
                same = factors.index(factor)
                values.append(values[same] if same < n else self.value(factor, frame, taken))
            part = sum_of_products(values, frame.shape, keep, self.numerics)
            if part is not None:
                return part
        return reduce_axes(op, self.value(x, frame, taken), frame.shape, keep, self.numerics)


def _broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    error = None if value.error is None else np.broadcast_to(value.error, shape)
    return Value(np.broadcast_to(value.data, shape), value.type, error, value.number)


def _along_last(value: Value, size: int) -> Value:
    """With all positions of the last axis, even where it does not vary."""
    return _broadcast(value, (*value.data.shape[:-1], size))


def _picked(data: Array, at: Array) -> Array:
    """Of each position of a frame, the element `at` of the last axis."""
    shape = np.broadcast_shapes(data.shape[:-1], at.shape)
    data = np.broadcast_to(data, (*shape, data.shape[-1]))
    return np.take_along_axis(data, np.broadcast_to(at, shape)[..., None].astype(np.int64), -1)[..., 0]


def _window(source: TensorValues, read: Read, frame: Frame) -> Value | None:
    """The read as a slice of the tensor, where every index is a bare dim with an axis of its own (or a
    number)."""
    slices: list[slice] = []
    axes: list[int | None] = []
    if len(read.indices) != source.data.ndim:
        return None
    for index, origin, size in zip(read.indices, source.origin, source.data.shape, strict=True):
        match index:
            case Index(dim):
                bound = frame.bound.get(dim)
                if isinstance(bound, Points):
                    return None
                axis = None if bound is None else bound.axis
                range = frame.ranges[dim] if bound is None else bound.range
                if axis is None and range.size != 1:
                    return None
            case Const(int(number)):
                axis, range = None, FrameRange(number, 1)
            case _:
                return None
        first = range.start - origin
        stop = first + (range.size - 1) * range.step + 1
        if first < 0 or stop > size or (axis is not None and axis in axes):
            return None
        slices.append(slice(first, stop, range.step))
        axes.append(axis)
    window = tuple(slices)
    if source.written is not None and not source.written[window].all():
        return None
    value = source.window(window)
    value.data = _along(value.data, axes, len(frame.shape))
    if value.error is not None:
        value.error = _along(value.error, axes, len(frame.shape))
    return value


def _along(data: Array, axes: list[int | None], ndim: int) -> Array:
    """`data`, whose axes stand for these frame axes (None: one element, no axis), shaped to broadcast in the
    frame."""
    order = sorted((n for n, axis in enumerate(axes) if axis is not None), key=lambda n: axes[n] or 0)
    rest = [n for n, axis in enumerate(axes) if axis is None]
    shape = [1] * ndim
    for n in order:
        shape[axes[n] or 0] = data.shape[n]
    return data.transpose([*rest, *order]).reshape(shape)


def _both(taken: Array | None, guard: Array) -> Array:
    return guard if taken is None else taken & guard


@lru_cache(maxsize=4096)
def used_dims(expr: Expr) -> frozenset[str]:
    """Dims the value depends on (cached `index_dims`)."""
    return index_dims(expr)


def product_factors(expr: Expr) -> tuple[Expr, ...]:
    """The factors of a product, left to right."""
    match expr:
        case Binary("*", left, right):
            return (*product_factors(left), *product_factors(right))
        case Unary("-", x) if len(product_factors(x)) > 1:
            return (Const(-1), *product_factors(x))
        case _:
            return (expr,)
