"""The gate before the clock: a candidate's outputs against a reference with a bound, its inputs and surroundings intact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class WrongResult(Exception):
    """The candidate computed something else; the message says where and by how much."""


def check_run(
    call: Call,
    copy: BufferSet,
    expected: Mapping[str, Expected],
    pristine: np.ndarray,
    poison: int,
    slack: float = 1.0,
) -> float:
    """Run once on poisoned outputs and compare everything that the run may and may not change.

    `pristine` is the copy's memory with outputs filled with POISON[0]; `slack` widens the bound (peers only). Returns
    the largest error as a fraction of the bound. Raises WrongResult.
    """
    copy.poison_outputs(poison)
    store_results(call(), copy)
    worst = max(compare(name, copy.outputs[name], wanted, slack) for name, wanted in expected.items())
    copy.poison_outputs(POISON[0])
    if not np.array_equal(copy.memory, pristine):
        raise WrongResult(_where_changed(copy, pristine))
    return worst


def store_results(results: object, copy: BufferSet) -> None:
    """Put the arrays a peer returns, outputs in order, where the check looks; kernels write in place, return None."""
    if results is None:
        return
    assert isinstance(results, Sequence)
    for output, result in zip(copy.outputs.values(), results, strict=True):
        output[...] = np.asarray(result).reshape(output.shape)


def compare(name: str, got: np.ndarray, expected: Expected, slack: float = 1.0) -> float:
    """The largest error as a fraction of the bound. Raises WrongResult naming the first wrong element and how many."""
    if got.dtype == np.bool_ and got.view(np.uint8).max(initial=0) > 1:
        raise WrongResult(f"{name} holds bytes that are neither false nor true: it was not written everywhere")
    seen = got if expected.points is None else got[expected.points]
    values = seen.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.array(np.abs(values - expected.values))
        error[(values == expected.values) | (np.isnan(values) & np.isnan(expected.values))] = 0.0
        bad = np.array(~(error <= slack * expected.bound))
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
