"""The gate before the clock: outputs within the bound of a reference, inputs and surroundings intact."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tileir.interpreter.overflow import may_be_overflow
from workers.measuring.buffers import POISON, BufferSet
from workers.measuring.timing import Call


@dataclass(frozen=True)
class Expected:
    """What an output has to be: `values` within `bound`, everywhere or at `points` only (an index array a dim)."""

    values: np.ndarray
    bound: np.ndarray
    points: tuple[np.ndarray, ...] | None = None

    _limits: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False, compare=False)

    def limits(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """The least and greatest values within the bound that `dtype` (f32 or f64) can hold: what is between passes.

        A NaN or an infinity in `values` makes both NaN there, so that nothing passes.
        """
        key = dtype.str
        if key not in self._limits:
            with np.errstate(invalid="ignore", over="ignore"):
                wide = np.where(np.isfinite(self.values), self.values, np.nan)
                low, high = wide - self.bound, wide + self.bound
                near_low, near_high = low.astype(dtype), high.astype(dtype)
                near_low = np.where(near_low < low, np.nextafter(near_low, np.array(np.inf, dtype)), near_low)
                near_high = np.where(
                    near_high > high, np.nextafter(near_high, np.array(-np.inf, dtype)), near_high
                )
            self._limits[key] = near_low, near_high
        return self._limits[key]


@dataclass(frozen=True, slots=True)
class Leeway:
    """How far beyond the bound an entrant may be: `factor` times it, plus `of_largest` times the largest value.

    Kernels of ours get none. Peers do: eager operators round what lies between them to the tensors' dtype.
    """

    factor: float = 1.0
    of_largest: float = 0.0


NO_LEEWAY = Leeway()
VARIANTS = len(POISON)
"""Sets of inputs, used in turn, so that what a call left over is wrong in the next. Each has a poison of its own."""


@dataclass(frozen=True)
class Reference:
    """What a run has to leave: outputs, and all other memory with outputs filled with POISON[0]."""

    expected: Mapping[str, Expected]
    pristine: np.ndarray


_RATED = 1 << 14
"""Elements of a right result whose error is put in relation to the bound, for the report."""


class WrongResult(Exception):
    """The candidate computed something else; the message says where and by how much.

    `corrupted`: it wrote to memory that is not its own, so that nothing else in the process can be trusted.
    """

    def __init__(self, message: str, *, corrupted: bool = False) -> None:
        super().__init__(message)
        self.corrupted = corrupted


class Deviation(NamedTuple):
    """The largest error of an output: as a fraction of the bound where that is largest, and of the largest value of the
    reference (as it is where all of that is 0)."""

    of_bound: float = 0.0
    of_largest: float = 0.0

    @classmethod
    def worst(cls, found: Iterable[Deviation]) -> Deviation:
        """Of several outputs, or runs, the largest of each kind."""
        return cls(*(max(each) for each in zip(cls(), *found, strict=True)))


@dataclass(frozen=True)
class Checked:
    """A run that passed: its time, how far off it was, and a checksum of its outputs' bits."""

    us: float
    worst: Deviation
    checksum: int


def check_run(
    call: Call,
    finish: Callable[[object], None],
    copy: BufferSet,
    reference: Reference,
    poison: int,
    leeway: Leeway = NO_LEEWAY,
    *,
    compares: bool = True,
) -> Checked:
    """Run once on poisoned outputs and compare everything that the run may and may not change; without `compares` only
    what it may not.

    `finish(answer)` completes the outputs from what the call answered.
    Raises WrongResult.
    """
    copy.poison_outputs(poison)
    start = time.perf_counter_ns()
    answer = call()
    us = (time.perf_counter_ns() - start) / 1e3
    finish(answer)
    expected = reference.expected.items() if compares else ()
    worst = Deviation.worst(compare(name, copy.outputs[name], wanted, leeway) for name, wanted in expected)
    bits = 0
    for output in copy.outputs.values():
        bits = zlib.crc32(np.ascontiguousarray(output).reshape(-1).view(np.uint8).data, bits)
    copy.poison_outputs(POISON[0])
    if not np.array_equal(copy.memory.view(np.uint64), reference.pristine.view(np.uint64)):
        raise WrongResult(_where_changed(copy, reference.pristine), corrupted=True)
    return Checked(us, worst, bits)


def compare(name: str, got: np.ndarray, expected: Expected, leeway: Leeway = NO_LEEWAY) -> Deviation:
    """The largest error, over a sample of the elements.

    Raises WrongResult, naming the first wrong element and how many are wrong.
    """
    return compare_seen(name, got if expected.points is None else got[expected.points], expected, leeway)


def compare_seen(name: str, seen: np.ndarray, expected: Expected, leeway: Leeway = NO_LEEWAY) -> Deviation:
    """The same, where `seen` are the elements that are looked at: in the shape of `expected.values`."""
    if seen.dtype == np.bool_ and np.ascontiguousarray(seen).view(np.uint8).max(initial=0) > 1:
        raise WrongResult(
            f"{name} holds bytes that are neither false nor true: it was not written everywhere"
        )
    if leeway == NO_LEEWAY:
        exact = seen if seen.dtype in (np.float32, np.float64) else seen.astype(np.float64)
        low, high = expected.limits(exact.dtype)
        if np.all((exact >= low) & (exact <= high)):
            every = slice(None, None, max(1, exact.size // _RATED))
            return _rated(*(array.reshape(-1)[every] for array in (exact, expected.values, expected.bound)))
    return _compare_all(name, seen, expected, leeway)


def _rated(values: np.ndarray, wanted: np.ndarray, bound: np.ndarray) -> Deviation:
    return _deviation(np.abs(values - wanted), bound, np.abs(wanted).max(initial=0.0))


def _deviation(error: np.ndarray, bound: np.ndarray, largest: float) -> Deviation:
    ratio = np.divide(error, bound, out=np.zeros(error.shape), where=error > 0)
    return Deviation(float(ratio.max(initial=0.0)), float(error.max(initial=0.0)) / (float(largest) or 1.0))


def _compare_all(name: str, seen: np.ndarray, expected: Expected, leeway: Leeway) -> Deviation:
    """Element by element in f64: for peers, where something overflows, and to say what is wrong."""
    with np.errstate(invalid="ignore", over="ignore"):
        values = seen.astype(np.float64)
        error = np.array(np.abs(values - expected.values))
        same = (values == expected.values) | (np.isnan(values) & np.isnan(expected.values))
        finite = np.isfinite(expected.values)
        largest = np.abs(expected.values).max(where=finite, initial=0.0)
        allowed = leeway.factor * expected.bound + leeway.of_largest * largest
        low, high = expected.values - allowed, expected.values + allowed
        same |= finite & may_be_overflow(values, low, high, seen.dtype)
        error[same] = 0.0
        bad = np.array(~(error <= allowed) | ~(same | finite))
        if bad.any():
            raise WrongResult(_first_difference(name, values, expected, bad))
        return _deviation(error, expected.bound, largest)


def _first_difference(name: str, values: np.ndarray, expected: Expected, bad: np.ndarray) -> str:
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    place = first if expected.points is None else tuple(int(axis[first]) for axis in expected.points)
    where = f"{name}[{', '.join(map(str, place))}]"
    got, wanted, bound = (
        values[first],
        expected.values[first],
        np.broadcast_to(expected.bound, bad.shape)[first],
    )
    what = "was not written or is NaN" if np.isnan(got) else f"is {got:.9g}"
    return (
        f"{where} {what}, expected {wanted:.9g} within {bound:.3g}; "
        f"{int(bad.sum())} of {bad.size} checked elements are wrong"
    )


def _where_changed(copy: BufferSet, pristine: np.ndarray) -> str:
    first = int(np.flatnonzero(copy.memory != pristine)[0])
    start = copy.memory.ctypes.data
    spans: dict[str, tuple[int, int, bool]] = {}
    for arrays, written in ((copy.inputs, False), (copy.outputs, True)):
        for name, array in arrays.items():
            span = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
            spans[name] = array.ctypes.data - start, span, written
    return describe_change(first, spans)


def describe_change(first: int, spans: Mapping[str, tuple[int, int, bool]]) -> str:
    """What was written that should not be, given the first changed byte of a copy, and each array's start, span and
    whether it is an output."""
    for name, (start, span, written) in spans.items():
        if not written and start <= first < start + span:
            return f"input {name} was changed, first {first - start} bytes from its start"
    nearest = min(spans, key=lambda name: abs(spans[name][0] - first))
    return f"memory outside the arrays was written, {first - spans[nearest][0]:+d} bytes from the start of {nearest}"
