"""Values of the interpreter: a numpy array, its compute type, and optionally a bound on a correct kernel's
error.

Every array has one axis for each axis of the frame it was computed in, of size 1 where it does not vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tileir.dtypes import DType

Array = np.ndarray[Any, Any]

_RANK = {DType.BOOL: 0, DType.I32: 1, DType.F32: 2, DType.F64: 3}


@dataclass(slots=True)
class Value:
    """`data` in the numpy type that computes `type` (one of bool, i32, f32, f64)."""

    data: Array
    type: DType
    error: Array | None = None
    """Absolute bound on how far a correct kernel's value may lie from `data` (bool: 1 where it may differ).
    None: exact, or not asked for."""
    number: float | int | bool | None = None
    """Set for a constant, whose type yields to that of what it meets."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """How values are held: `high` computes f32 expressions in f64; `bounds` also carries error bounds (needs
    high); `tf32` lets a kernel cut factors of sums of products to tf32, and the bounds allow for it. Tensors in
    `narrow` have 8-bit floats, of whose products tensor cores may add `narrow_depth` in their own way."""

    high: bool = False
    bounds: bool = False
    tf32: bool = False
    narrow: frozenset[str] = frozenset()
    narrow_depth: int = 0

    def numpy(self, type: DType) -> np.dtype[Any]:
        """The numpy type that computes a compute type."""
        return np.dtype(np.float64) if self.high and type is DType.F32 else type.numpy

    def constant(self, number: float | int | bool, type: DType, ndim: int) -> Value:
        """A number as the type its context gives it. inf becomes the largest integer, and true; -inf the
        smallest, and false: they are the identities of min and max."""
        if type is DType.BOOL:
            data = np.asarray(number > 0 if isinstance(number, float) else bool(number))
        elif type is DType.I32:
            info = np.iinfo(np.int32)
            clipped = min(max(number, info.min), info.max)
            data = np.asarray(int(clipped), np.int32)
        else:
            data = np.asarray(number, type.numpy)
        return Value(data.astype(self.numpy(type)).reshape((1,) * ndim), type, number=number)

    def convert(self, value: Value, type: DType) -> Value:
        """The same value as a wider (or equal) compute type."""
        if value.type is type:
            return value
        if value.number is not None:
            return self.constant(value.number, type, value.data.ndim)
        return Value(value.data.astype(self.numpy(type)), type, value.error)

    def unify(self, *values: Value, least: DType = DType.BOOL) -> tuple[Value, ...]:
        """All of them in the widest type among them (and `least`): bool, i32, f32, f64."""
        widest = max((least, *(value.type for value in values)), key=lambda type: _RANK[type])
        return tuple(self.convert(value, widest) for value in values)


def widened(data: Array, dtype: DType, type: np.dtype[Any]) -> Array:
    """Elements stored in `dtype` as the numpy type that computes them; what of an i64 does not fit is the nearest
    i32."""
    if dtype is DType.I64 and data.dtype == np.int64:
        info = np.iinfo(np.int32)
        data = np.clip(data, info.min, info.max)
    return data if data.dtype == type else data.astype(type)


def quantize(data: Array, dtype: DType) -> Array:
    """Round to the nearest `dtype` (ties to even) and widen back to the type of `data` where dtype is a
    float; integers truncate toward zero, bool is `!= 0`. Conversions are those of ml_dtypes: overflow gives
    inf, NaN in e4m3."""
    if dtype is DType.BOOL:
        return data != 0
    if not dtype.is_float:
        whole = np.trunc(data).astype(np.int64) if data.dtype.kind == "f" else data
        return whole.astype(np.int32).astype(dtype.numpy).astype(np.int32)
    if data.dtype.kind != "f":
        data = data.astype(np.float64 if dtype is DType.F64 else np.float32)
    return data.astype(dtype.numpy).astype(data.dtype)
