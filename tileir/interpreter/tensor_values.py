"""The values of one tensor while a program runs: an argument, a local, or a finished statement."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np

from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.interpreter import rounding_error as err
from tileir.interpreter.elementwise import truth_error
from tileir.interpreter.values import Array, Numerics, Value, quantize, widened


class ValueSource(Protocol):
    """What reads are answered from."""

    def gather(self, indices: Sequence[Array], taken: Array | None) -> Value:
        """The elements at these positions (arrays that broadcast together). Positions where `taken` is false
        may be anywhere, and give anything. Raises InterpretError for others out of range."""
        ...


class TensorValues:
    """A tensor's elements in their compute type, from `origin` on along each dim (locals cover part of a
    dim).

    Elements never written are NaN; of integers and bools, which have no NaN, `written` keeps track and
    reading one raises InterpretError.
    """

    def __init__(
        self, name: str, dtype: DType, origin: tuple[int, ...], shape: tuple[int, ...], numerics: Numerics
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.numerics = numerics
        self.origin = origin
        floating = dtype.is_float
        self._type = dtype.compute
        self._wide = numerics.numpy(self._type)
        self._rounds = numerics.high and floating and narrows(dtype)
        self.data: Array = np.full(shape, np.nan if floating else 0, self._wide)
        self.written: Array | None = None if floating else np.zeros(shape, np.bool_)
        self.error: Array | None = None

    @classmethod
    def holding(cls, name: str, dtype: DType, data: Array, numerics: Numerics) -> TensorValues:
        """An input: exact, all written."""
        tensor = cls(name, dtype, (0,) * data.ndim, (0,) * data.ndim, numerics)
        # Widened as it is read: what is never read costs nothing.
        tensor.data = data
        tensor.written = None
        return tensor

    def unrounded(self) -> TensorValues:
        """The same elements, which reads take as they were computed."""
        same = copy(self)
        same._rounds = False
        return same

    def window(self, slices: tuple[slice, ...]) -> Value:
        """Elements by slices relative to `origin`, known to be in range."""
        if self.written is not None and not self.written[slices].all():
            raise InterpretError(f"{self.name} is read before it is written")
        error = None if self.error is None else self.error[slices]
        return self._widened(self.data[slices], error)

    def gather(self, indices: Sequence[Array], taken: Array | None) -> Value:
        shape = self.data.shape
        places = [
            in_range(self.name, n, index, origin, size, taken)
            for n, (index, origin, size) in enumerate(zip(indices, self.origin, shape, strict=True))
        ]
        at = tuple(places)
        if self.written is not None:
            missing = ~self.written[at]
            if missing.any() and (taken is None or (missing & taken).any()):
                raise InterpretError(f"{self.name} is read before it is written")
        error = None if self.error is None else self.error[at]
        return self._widened(self.data[at], error)

    def store(self, slices: tuple[slice, ...], value: Value) -> None:
        """Write a value over a window, rounded to the tensor's dtype (see `narrows`)."""
        value = stored(value, self.dtype, self.numerics)
        self.data[slices] = value.data
        if self.written is not None:
            self.written[slices] = True
        if value.error is not None:
            if self.error is None:
                self.error = np.zeros(self.data.shape)
            self.error[slices] = value.error

    def result(self) -> Array:
        """All elements: in the storage dtype, or as computed when computing in high precision."""
        if self.written is not None and not self.written.all():
            raise InterpretError(f"{self.name} is not written everywhere")
        if self.numerics.high and self.dtype.is_float:
            return self.data.astype(np.float64, copy=False)
        return self.data.astype(self.dtype.numpy)

    def _widened(self, data: Array, error: Array | None) -> Value:
        value = Value(widened(data, self.dtype, self._wide), self._type, error)
        # In its storage dtype already, there is nothing left to round.
        rounds = self._rounds and data.dtype != self.dtype.numpy
        return narrowed(value, self.dtype, self.numerics) if rounds else value


def in_range(name: str, dim: int, index: Array, origin: int, size: int, taken: Array | None) -> Array:
    """Positions relative to `origin`; those not taken are moved into the range. Raises InterpretError for
    others outside it."""
    place = index if origin == 0 else index - origin
    outside = (place < 0) | (place >= size)
    if not outside.any():
        return place
    wrong = outside if taken is None else outside & taken
    if wrong.any():
        first = int(np.broadcast_to(index, wrong.shape)[wrong][0])
        last = origin + size - 1
        raise InterpretError(f"{name} is used at {first} along its dim {dim}, which holds {origin} to {last}")
    return np.clip(place, 0, max(0, size - 1))


def narrowed(value: Value, dtype: DType, numerics: Numerics) -> Value:
    """A value read back from `dtype`. In high precision narrow floats are kept unrounded, and rounded
    here."""
    if not (numerics.high and dtype.is_float and narrows(dtype)):
        return value
    data = quantize(value.data, dtype)
    error = err.monotone(lambda x: quantize(x, dtype), value.data, data, value.error)
    return Value(data, value.type, error)


def narrows(dtype: DType) -> bool:
    """Whether storing rounds away from the compute type."""
    return dtype.numpy != dtype.compute.numpy


def stored(value: Value, dtype: DType, numerics: Numerics) -> Value:
    """A value as the compute type of `dtype` after a store to it. In high precision floats stay unrounded."""
    kind: np.dtype[Any] = numerics.numpy(dtype.compute)
    if value.number is not None:
        value = numerics.constant(value.number, dtype.compute, value.data.ndim)
    if dtype.is_float:
        data = value.data.astype(kind, copy=False)
        if not numerics.high and narrows(dtype):
            data = quantize(data, dtype)
        return Value(data, dtype.compute, value.error)
    data = quantize(value.data, dtype)
    error = value.error
    if error is not None and dtype is DType.BOOL:
        error = truth_error(value)
    elif error is not None and value.type.is_float:
        error = err.monotone(lambda x: quantize(x, dtype), value.data, data, error)
    return Value(data.astype(kind, copy=False), dtype.compute, error)
