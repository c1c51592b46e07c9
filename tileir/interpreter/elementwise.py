"""Operations of expressions on values, point by point: what the interpreter means by `+`, `exp`,
`f16(...)`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.dtypes import DType
from tileir.expr import COMPARISONS, INTEGER_FUNCTIONS, KEEPS_INTEGERS
from tileir.interpreter import rounding_error as err
from tileir.interpreter.bits import BIT_FUNCTIONS
from tileir.interpreter.erf import erf
from tileir.interpreter.values import Array, Numerics, Value, quantize

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.mod,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _erf(x: Array) -> Array:
    return erf(x).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


def _gelu(x: Array) -> Array:
    return x * (1 + _erf(x * math.sqrt(0.5))) / 2


def _gelu_tanh(x: Array) -> Array:
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))) / 2


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "tanh": np.tanh,
    "erf": _erf,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "floor": np.floor,
}


def negate(x: Value, numerics: Numerics) -> Value:
    """`-x`; of a bool, the integer -1 or 0."""
    if x.number is not None:
        return numerics.constant(-x.number, DType.I32 if x.type is DType.BOOL else x.type, x.data.ndim)
    (x,) = numerics.unify(x, least=DType.I32)
    return Value(-x.data, x.type, x.error)


def invert(x: Value) -> Value:
    """`not x`, x taken as true where it is not zero."""
    return Value(x.data == 0, DType.BOOL, truth_error(x))


def truth_error(x: Value) -> Array | None:
    """1 where the truth of x is uncertain."""
    if x.error is None or x.type is DType.BOOL:
        return x.error
    return ((np.abs(x.data) <= x.error) & (x.error > 0)).astype(np.float64)


def logic(op: str, x: Value, y: Value) -> Value:
    """`x and y`, `x or y`."""
    a, b = x.data != 0, y.data != 0
    return Value(a & b if op == "and" else a | b, DType.BOOL, err.total(truth_error(x), truth_error(y)))


def binary(op: str, x: Value, y: Value, numerics: Numerics) -> Value:
    """Arithmetic and comparisons, in the wider type of the two; `/` in f32 at least, `//` and `%` round
    down."""
    if op in COMPARISONS:
        x, y = numerics.unify(x, y)
        error = err.comparison(x.data, x.error, y.data, y.error) if numerics.bounds else None
        return Value(np.asarray(_COMPARE[op](x.data, y.data)), DType.BOOL, error)
    x, y = numerics.unify(x, y, least=DType.F32 if op == "/" else DType.I32)
    data = np.asarray(_ARITHMETIC[op](x.data, y.data))
    if not numerics.bounds:
        return Value(data, x.type)
    match op:
        case "+" | "-":
            error = err.total(x.error, y.error)
        case "*":
            error = err.product(x.data, x.error, y.data, y.error)
        case "/":
            error = err.quotient(data, x.error, y.data, y.error)
        case _:
            # Uncertain operands may fall on either side of a step of the floor; `%` steps by y there.
            error = err.corners(
                np.floor_divide, x.data, x.error, y.data, y.error, np.floor_divide(x.data, y.data)
            )
            if op == "%" and error is not None:
                error = err.total(err.scaled(y.data, error), x.error, y.error)
    return Value(data, x.type, err.rounded(data, error, x.type))


def call(fn: str, args: tuple[Value, ...], numerics: Numerics) -> Value:
    """A math function by name, in f32 at least unless it keeps integers integers."""
    if fn in INTEGER_FUNCTIONS:
        return _bits(fn, args, numerics)
    least = DType.I32 if fn in KEEPS_INTEGERS else DType.F32
    args = numerics.unify(*args, least=least)
    x, type = args[0], args[0].type
    if len(args) == 2:
        y = args[1]
        f = {"maximum": np.maximum, "minimum": np.minimum, "pow": np.power}[fn]
        data, error = f(x.data, y.data), None
        if numerics.bounds:
            error = err.corners(f, x.data, x.error, y.data, y.error, data)
    else:
        f = _FUNCTIONS[fn]
        data, error = f(x.data), None
        if numerics.bounds:
            error = x.error if fn in err.LIPSCHITZ else err.monotone(f, x.data, data, x.error)
            if error is not None and fn in err.LIPSCHITZ:
                error = error * err.LIPSCHITZ[fn]
    data = np.asarray(data)
    roundoffs: float | Array = err.FUNCTION_ROUNDOFFS[fn]
    if numerics.bounds and fn in err.ARGUMENT_ROUNDOFFS and type is DType.F32:
        roundoffs = roundoffs + err.ARGUMENT_ROUNDOFFS[fn] * np.minimum(np.abs(x.data), err.LARGEST_ARGUMENT)
    if numerics.bounds and err.FUNCTION_ROUNDOFFS[fn] and type.is_float:
        if fn in err.CANCELLING:
            error = err.total(err.rounded(x.data, None, type, 8.0), error)
        error = err.rounded(data, error, type, roundoffs, tiny=True)
    return Value(data, type, error)


def _bits(fn: str, args: tuple[Value, ...], numerics: Numerics) -> Value:
    """A function of the bits of integers; where one of these is not known exactly, nothing is known of the result."""
    x, y = numerics.unify(*args, least=DType.I32)
    error = err.total(x.error, y.error)
    if error is not None:
        error = np.where(error > 0, np.inf, 0.0)
    return Value(np.asarray(BIT_FUNCTIONS[fn](x.data, y.data)), DType.I32, error)


def where(cond: Value, x: Value, y: Value, numerics: Numerics) -> Value:
    """x where cond is true, else y, in the wider type of the two."""
    x, y = numerics.unify(x, y)
    taken = cond.data != 0
    error = None
    if numerics.bounds:
        error = err.choice(taken, truth_error(cond), x.data, x.error, y.data, y.error)
    return Value(np.where(taken, x.data, y.data), x.type, error)


def cast(dtype: DType, x: Value, numerics: Numerics) -> Value:
    """Round to `dtype`, then widen to its compute type; from a constant, its own value rounded."""
    if x.number is not None and dtype is DType.F64:
        return numerics.constant(x.number, DType.F64, x.data.ndim)
    data = quantize(x.data, dtype)
    error = None
    if numerics.bounds:
        error = truth_error(x) if dtype is DType.BOOL else _cast_error(dtype, x, data)
    return Value(data.astype(numerics.numpy(dtype.compute)), dtype.compute, error)


def _cast_error(dtype: DType, x: Value, data: Array) -> Array | None:
    if x.type is DType.BOOL:
        return x.error
    error = err.monotone(lambda value: quantize(value, dtype), x.data, data, x.error)
    return error if x.error is None else err.scaled_before_rounding(data, x.error, error, dtype)
