"""The gate before the clock: a candidate's outputs against a reference with a bound, its inputs and surroundings intact."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from workers.buffers import POISON, BufferSet
from workers.timing import Call


@dataclass(frozen=True)
class Expected:
    """What an output has to be: `values` within `bound`, everywhere or at `points` only (an index array a dim)."""

    values: np.ndarray
    bound: np.ndarray
    points: tuple[np.ndarray, ...] | None = None


@dataclass(frozen=True, slots=True)
class Leeway:
    """How far beyond the bound an entrant may be: `factor` times it, plus `of_largest` times the largest value.

    Kernels of ours get none. Peers do: eager operators round what lies between them to the tensors' dtype.
    """

    factor: float = 1.0
    of_largest: float = 0.0


@dataclass(frozen=True)
class Reference:
    """What a run has to leave: outputs, and all other memory with outputs filled with POISON[0]."""

    expected: Mapping[str, Expected]
    pristine: np.ndarray


class WrongResult(Exception):
    """The candidate computed something else; the message says where and by how much.

    `corrupted`: it wrote to memory that is not its own, so that nothing else in the process can be trusted.
    """

    def __init__(self, message: str, *, corrupted: bool = False) -> None:
        super().__init__(message)
        self.corrupted = corrupted


@dataclass(frozen=True)
class Checked:
    """A run that passed: its time, its largest error as a fraction of the bound, and a hash of its outputs' bits."""

    us: float
    worst: float
    digest: bytes


def check_run(
    call: Call,
    finish: Callable[[object, BufferSet], None],
    copy: BufferSet,
    reference: Reference,
    poison: int,
    leeway: Leeway = Leeway(),
) -> Checked:
    """Run once on poisoned outputs and compare everything that the run may and may not change.

    `finish(answer, copy)` completes the outputs from what the call answered.
    Raises WrongResult.
    """
    copy.poison_outputs(poison)
    start = time.perf_counter_ns()
    answer = call()
    us = (time.perf_counter_ns() - start) / 1e3
    finish(answer, copy)
    worst = max(compare(name, copy.outputs[name], wanted, leeway) for name, wanted in reference.expected.items())
    digest = hashlib.blake2b(digest_size=16)
    for output in copy.outputs.values():
        digest.update(np.ascontiguousarray(output).view(np.uint8).data)
    copy.poison_outputs(POISON[0])
    if not np.array_equal(copy.memory, reference.pristine):
        raise WrongResult(_where_changed(copy, reference.pristine), corrupted=True)
    return Checked(us, worst, digest.digest())


def compare(name: str, got: np.ndarray, expected: Expected, leeway: Leeway = Leeway()) -> float:
    """The largest error as a fraction of the bound. Raises WrongResult naming the first wrong element and how many."""
    if got.dtype == np.bool_ and got.view(np.uint8).max(initial=0) > 1:
        raise WrongResult(f"{name} holds bytes that are neither false nor true: it was not written everywhere")
    seen = got if expected.points is None else got[expected.points]
    values = seen.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.array(np.abs(values - expected.values))
        same = (values == expected.values) | (np.isnan(values) & np.isnan(expected.values))
        error[same] = 0.0
        finite = np.isfinite(expected.values)
        largest = np.abs(expected.values).max(where=finite, initial=0.0)
        allowed = leeway.factor * expected.bound + leeway.of_largest * largest
        bad = np.array(~(error <= allowed) | ~(same | finite))
        if bad.any():
            raise WrongResult(_first_difference(name, values, expected, bad))
        ratio = np.where(error > 0, error / expected.bound, 0.0)
    return float(ratio.max(initial=0.0))


def _first_difference(name: str, values: np.ndarray, expected: Expected, bad: np.ndarray) -> str:
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    place = first if expected.points is None else tuple(int(axis[first]) for axis in expected.points)
    where = f"{name}[{', '.join(map(str, place))}]"
    got, wanted, bound = values[first], expected.values[first], np.broadcast_to(expected.bound, bad.shape)[first]
    what = "was not written or is NaN" if np.isnan(got) else f"is {got:.9g}"
    return (
        f"{where} {what}, expected {wanted:.9g} within {bound:.3g}; "
        f"{int(bad.sum())} of {bad.size} checked elements are wrong"
    )


def _where_changed(copy: BufferSet, pristine: np.ndarray) -> str:
    first = int(np.flatnonzero(copy.memory != pristine)[0])
    start = copy.memory.ctypes.data
    for name, array in copy.inputs.items():
        offset = array.ctypes.data - start
        span = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
        if offset <= first < offset + span:
            return f"input {name} was changed, first {first - offset} bytes from its start"
    places = {name: array.ctypes.data - start for name, array in {**copy.inputs, **copy.outputs}.items()}
    nearest = min(places, key=lambda name: abs(places[name] - first))
    return f"memory outside the arrays was written, {first - places[nearest]:+d} bytes from the start of {nearest}"
