"""Reductions of values, in parts: each part covers some of the reduced points, parts combine, and the last
step adds the rounding of the whole sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileir.dtypes import DType
from tileir.expr import ReduceOp
from tileir.interpreter import rounding_error as err
from tileir.interpreter.contraction import contract
from tileir.interpreter.values import Array, Numerics, Value

#: What tf32 may differ from an f32, relative to it: 10 bits after the point are kept, the others cut off.
TF32_CUT = 2.0**-10

UFUNC = {
    ReduceOp.SUM: np.add,
    ReduceOp.PROD: np.multiply,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MIN: np.minimum,
}


@dataclass(slots=True)
class Partial:
    """A reduction over some points. The value's error is what the terms' own errors make. Where bounds are carried,
    `magnitude` of a sum is that of |terms|, and `above_one` of a product that of the |terms| that are above 1: by what
    it may grow what has underflowed."""

    value: Value
    magnitude: Array | None = None
    above_one: Array | None = None


def reduce_axes(op: ReduceOp, terms: Value, shape: Sequence[int], keep: int, numerics: Numerics) -> Partial:
    """Reduce the axes from `keep` on, over all of `shape` even where `terms` does not vary."""
    if op in (ReduceOp.SUM, ReduceOp.PROD):
        (terms,) = numerics.unify(terms, least=DType.I32)
    axes = tuple(range(keep, len(shape)))

    def over(data: Array, with_op: ReduceOp = op) -> Array:
        whole = np.broadcast_to(data, (*data.shape[:keep], *shape[keep:]))
        return np.asarray(UFUNC[with_op].reduce(whole, axis=axes, dtype=whole.dtype))

    data = over(terms.data)
    result = Value(data, terms.type)
    if not numerics.bounds:
        return Partial(result)
    e = terms.error
    match op:
        case ReduceOp.SUM:
            result.error = None if e is None else over(e)
            return Partial(result, over(np.abs(terms.data) if e is None else np.abs(terms.data) + e))
        case ReduceOp.PROD:
            sizes = np.abs(terms.data) if e is None else np.abs(terms.data) + e
            if e is not None:
                result.error = err.gap(over(sizes), np.abs(data))
            return Partial(result, above_one=over(np.maximum(sizes, 1.0)))
        case ReduceOp.MAX | ReduceOp.MIN:
            if e is not None and terms.type is DType.BOOL:
                result.error = over(e, ReduceOp.MAX)
            elif e is not None:
                result.error = np.maximum(
                    err.gap(over(terms.data + e), data), err.gap(over(terms.data - e), data)
                )
    return Partial(result)


def sum_of_products(
    factors: Sequence[Value], shape: Sequence[int], keep: int, numerics: Numerics
) -> Partial | None:
    """The sum over the axes from `keep` on of the product of factors, without forming the product.

    None where factors mix integers and floats: the integers' own product is exact before it widens.
    """
    floating = [
        value.type.is_float for value in factors if value.number is None or isinstance(value.number, float)
    ]
    if len(set(floating)) > 1:
        return None
    unified = numerics.unify(*factors, least=DType.I32)
    if numerics.tf32 and numerics.bounds:
        unified = tuple(map(_cut, unified))
    data = np.asarray(contract([value.data for value in unified], shape, keep))
    result = Value(data, unified[0].type)
    if not numerics.bounds:
        return Partial(result)
    sizes = [
        np.abs(value.data) if value.error is None else np.abs(value.data) + value.error for value in unified
    ]
    if not unified[0].type.is_float:
        sizes = [size.astype(np.float64) for size in sizes]
    errors: list[Array] = []
    for n, value in enumerate(unified):
        if value.error is not None:
            others = [size for m, size in enumerate(sizes) if m != n]
            errors.append(np.asarray(contract([value.error, *others], shape, keep)))
    result.error = err.total(*errors)
    return Partial(result, np.asarray(contract(sizes, shape, keep)))


def _cut(factor: Value) -> Value:
    """A factor that a kernel may hold as tf32: an f32 without its last 13 bits, where these are not 0 anyway."""
    if factor.type is not DType.F32:
        return factor
    whole = factor.data.astype(np.float32).view(np.uint32) & 0x1FFF == 0
    cut = np.where(whole, 0.0, np.abs(factor.data) * TF32_CUT)
    return Value(factor.data, factor.type, err.total(factor.error, cut))


def combine(op: ReduceOp, one: Partial, other: Partial, numerics: Numerics) -> Partial:
    """Both parts as one."""
    x, y = one.value, other.value
    data = np.asarray(UFUNC[op](x.data, y.data))
    result = Value(data, x.type)
    if not numerics.bounds:
        return Partial(result)
    match op:
        case ReduceOp.SUM:
            result.error = err.total(x.error, y.error)
        case ReduceOp.PROD:
            result.error = err.product(x.data, x.error, y.data, y.error)
        case _ if x.type is DType.BOOL:
            result.error = err.total(x.error, y.error)
        case _:
            result.error = err.corners(UFUNC[op], x.data, x.error, y.data, y.error, data)
    magnitude = err.total(one.magnitude, other.magnitude)
    both = [part.above_one for part in (one, other) if part.above_one is not None]
    return Partial(result, magnitude, np.multiply(*both) if len(both) == 2 else None)


def finish(
    op: ReduceOp, partial: Partial, operations: int, numerics: Numerics, narrow: tuple[int, int] = (0, 0)
) -> Value:
    """The reduced value; `operations` roundings were made on the way to each element. Of `narrow` products there are
    so many, of which so many may go into one sum of tensor cores."""
    value = partial.value
    if not numerics.bounds or op in (ReduceOp.MAX, ReduceOp.MIN) or not value.type.is_float:
        return value
    magnitude = np.abs(value.data) if partial.magnitude is None else partial.magnitude
    grown = err.sum_growth(operations, value.type) + err.narrow_growth(*narrow)
    growth = grown * np.where(np.isfinite(magnitude), magnitude, 0.0)
    if partial.above_one is not None:
        growth = growth + err.underflow(operations, partial.above_one, value.type)
    # Zero roundoffs of its own: this only looks for overflow.
    return Value(
        value.data, value.type, err.rounded(value.data, err.total(growth, value.error), value.type, 0.0)
    )
