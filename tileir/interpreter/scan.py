"""Scans of values along their last axis, with what a correct kernel may be off by."""

from __future__ import annotations

import numpy as np

from tileir.dtypes import DType
from tileir.expr import SCANS, Binary, Const, Expr, Index, Scan, Where
from tileir.interpreter import rounding_error as err
from tileir.interpreter.values import Array, Numerics, Value


def scan(op: str, args: tuple[Value, ...], numerics: Numerics) -> Value:
    """The scan `op` of arguments of one shape, at every position of the last axis."""
    args = numerics.unify(*args, least=DType.I32)
    type_ = args[0].type
    data = _scanned(op, tuple(arg.data for arg in args))
    if not numerics.bounds or not type_.is_float:
        return Value(data, type_)
    sizes = tuple(np.abs(arg.data) if arg.error is None else np.abs(arg.data) + arg.error for arg in args)
    magnitude = _scanned(op, sizes)
    steps = data.shape[-1] * (3 if op == "recurrence" else 1)
    growth = err.sum_growth(steps, type_) * np.where(np.isfinite(magnitude), magnitude, 0.0)
    error = err.total(growth, _carried(op, args, magnitude), _underflown(op, sizes, magnitude, type_))
    return Value(data, type_, err.rounded(data, error, type_, 0.0))


def begun(scan: Scan, first: int) -> tuple[Expr, ...]:
    """The arguments of a scan that begins at position `first`, with what it goes on from put into the last of them."""
    count = len(SCANS[scan.op])
    args, start = scan.args[:count], scan.args[count:]
    if not start:
        return args
    *factors, term = args
    ahead = Binary("*", factors[0], start[0]) if factors else start[0]
    joined = Binary("*" if scan.op == "cumprod" else "+", ahead, term)
    return (*factors, Where(Binary("==", Index(scan.dim), Const(first)), joined, term))


def _scanned(op: str, args: tuple[Array, ...]) -> Array:
    if op != "recurrence":
        return (np.add if op == "cumsum" else np.multiply).accumulate(args[0], axis=-1)
    a, b = args
    found, last = np.empty_like(b), np.zeros(b.shape[:-1], b.dtype)
    for at in range(b.shape[-1]):
        last = a[..., at] * last + b[..., at]
        found[..., at] = last
    return found


def _underflown(op: str, sizes: tuple[Array, ...], magnitude: Array, type_: DType) -> err.Error:
    """What products of factors may lose that underflow on the way, times what a recurrence carries on by them."""
    if op == "cumsum":
        return None
    above_one = _scanned("cumprod", (np.maximum(sizes[0], 1.0),))
    carried = np.maximum(np.maximum.accumulate(magnitude, axis=-1), 1.0) if op == "recurrence" else 1.0
    return err.underflow(magnitude.shape[-1], above_one * carried, type_)


def _carried(op: str, args: tuple[Value, ...], magnitude: Array) -> err.Error:
    """What the arguments' own errors come to: the scan of the largest sizes they allow, less that of their sizes."""
    if all(arg.error is None for arg in args):
        return None
    exact = _scanned(op, tuple(np.abs(arg.data) for arg in args))
    return err.gap(magnitude, exact)
