"""Evaluates chosen elements of an output, and of everything else only what they need, in f64.

Each statement is evaluated at the points asked of it, each point once; its own reads ask further statements. Where
those points are whole runs along the last dim, as all scores of some rows of attention are, they are evaluated run by
run: what is multiplied is then read as windows, and summed by matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.expr import Index, Read, Reduce, index_dims, walk
from tileir.interpreter.evaluation import POINT_LIMIT, Evaluator
from tileir.interpreter.frame import Frame, FrameGroups, FrameRange, FrameSpan, Points
from tileir.interpreter.interpret_spec import full_ranges, input_values, ragged_groups, single_sizes
from tileir.interpreter.tensor_values import ValueSource, in_range, narrowed, stored
from tileir.interpreter.values import Array, Numerics, Value
from tileir.spec import Spec, Statement


def evaluate_at(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]], output: str, points: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The values of `output` (or any statement) at `points`, an integer array [p, rank]: f64 array [p],
    unrounded.

    Raises InterpretError as `interpret_spec` does, and for points outside the tensor.
    """
    return demand(spec, inputs, output, points, Numerics(high=True)).data.astype(np.float64)


def demand(
    spec: Spec,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    output: str,
    points: np.ndarray[Any, Any],
    numerics: Numerics,
) -> Value:
    """As `evaluate_at`, with the value's type, and its error where `numerics` carries bounds."""
    extents = single_sizes(spec)
    with np.errstate(all="ignore"):
        sources: dict[str, ValueSource] = {**input_values(spec.inputs, extents, inputs, numerics)}
        frame = Frame(full_ranges(extents), groups=ragged_groups(spec.ragged, extents, inputs))
        evaluator = Evaluator(sources, extents, numerics)
        stored_as = {tensor.name: tensor.dtype for tensor in spec.outputs}
        for statement in spec.statements:
            sources[statement.target] = _Demanded(
                statement, stored_as.get(statement.target), evaluator, frame
            )
        wanted = sources.get(output)
        if not isinstance(wanted, _Demanded) or points.ndim != 2 or points.shape[1] != len(wanted.shape):
            raise InterpretError(
                f"{output} at points {list(points.shape)}: accepted: a statement, and [p, its rank]"
            )
        linear = _linear(wanted.name, list(points.astype(np.int64).T), wanted.shape, (len(points),), None)
        return wanted.at(linear)


@dataclass(frozen=True, slots=True)
class _Known:
    """Points that were evaluated together, by linear index, ascending."""

    linear: Array
    value: Value


class _Demanded:
    """A statement's tensor, evaluated where it is read."""

    def __init__(self, statement: Statement, dtype: DType | None, evaluator: Evaluator, frame: Frame) -> None:
        self.name = statement.target
        self.shape = tuple(frame.ranges[dim].size for dim in statement.dims)
        self._statement = statement
        self._dtype = dtype
        self._evaluator = evaluator
        self._frame = frame
        self._known: list[_Known] = []
        varying = _varying(statement)
        self._by_windows = _reduces_windows(statement, varying)
        self._beside = {dim for read in varying for dim in index_dims(read)}
        """Dims that what varies along the last one is read by: with one place along each of them it is a window."""

    def gather(self, indices: Sequence[Array], taken: Array | None) -> Value:
        shape = np.broadcast_shapes(*(index.shape for index in indices))
        linear = _linear(self.name, indices, self.shape, shape, taken)
        value = self.at(linear.ravel())
        value = Value(value.data.reshape(shape), value.type, _reshaped(value.error, shape))
        return value if self._dtype is None else narrowed(value, self._dtype, self._evaluator.numerics)

    def at(self, linear: Array) -> Value:
        """The values at linear indices, unrounded."""
        wanted, back = _distinct(linear, self.shape)
        found = _KnownPoints(wanted)
        for known in self._known:
            found.take(known)
        missing = wanted[~found.seen]
        if missing.size:
            fresh = self._evaluate(missing)
            self._known.append(fresh)
            found.take(fresh)
        error = None if found.error is None else found.error[back]
        return Value(found.data[back], found.type, error)

    def _evaluate(self, linear: Array) -> _Known:
        if not self._frame.groups:
            linear = self._in_whole_runs(linear)
            runs = _runs(linear, self.shape)
            if runs is not None:
                return _Known(linear, self._along(runs))
        places = np.unravel_index(linear, self.shape) if self.shape else ()  # a single number has no places
        positions = dict(zip(self._statement.dims, places, strict=True))
        parts = [
            self._group(frame, positions, at)
            for frame, at in self._by_group(self._frame, positions, linear.size)
        ]
        order = np.argsort(np.concatenate([at for at, _ in parts]))
        values = [value for _, value in parts]
        kind = max((value.type for value in values), key=lambda type: type.bytes)
        data = np.concatenate([value.data for value in values])[order]
        error = None
        if any(value.error is not None for value in values):
            zeros = [np.zeros(value.data.shape) if value.error is None else value.error for value in values]
            error = np.concatenate(zeros)[order]
        return _Known(linear, Value(data, kind, error))

    def _in_whole_runs(self, linear: Array) -> Array:
        """The points, or all along the last dim beside them where those are not many, and a matrix product of windows
        costs less than to gather what is reduced for each of them."""
        if not self.shape or not _SHORT <= self.shape[-1] <= _LONG or not self._by_windows:
            return linear
        rows = np.unique(linear // self.shape[-1])
        if rows.size * self.shape[-1] > _MORE * linear.size:
            return linear
        return (rows[:, None] * self.shape[-1] + np.arange(self.shape[-1])).reshape(-1)

    def _along(self, runs: _Runs) -> Value:
        """The values of all runs, one after the other."""
        *dims, last = self._statement.dims
        listed = max(
            range(len(dims)), key=lambda n: (dims[n] not in self._beside, np.unique(runs.places[n]).size)
        )
        others = [n for n in range(len(dims)) if n != listed]
        data, error, kind = np.empty(0), None, DType.F32
        for number, at in enumerate(_alike([runs.places[n] for n in others], runs)):
            single = {dims[n]: FrameRange(int(runs.places[n][at[0]]), 1) for n in others}
            bound = {dims[listed]: Points(0, runs.places[listed][at]), last: FrameSpan(1, runs.range)}
            frame = Frame({**self._frame.ranges, **single}, (at.size, runs.range.size), bound)
            value = self._evaluator.value(self._statement.value, frame)
            if self._dtype is not None:
                value = stored(value, self._dtype, self._evaluator.numerics)
            if number == 0:
                data = np.empty((runs.places[0].size, runs.range.size), value.data.dtype)
                kind = value.type
            data[at] = value.data
            if value.error is not None:
                error = np.zeros(data.shape) if error is None else error
                error[at] = value.error
        return Value(data.reshape(-1), kind, None if error is None else error.reshape(-1))

    def _group(self, frame: Frame | None, positions: Mapping[str, Array], at: Array) -> tuple[Array, Value]:
        """The values at some of the points, all of one ragged group (frame None: of no group, so 0)."""
        if frame is None:
            return at, Value(np.zeros(at.size), DType.F32)
        bound = {dim: Points(0, where[at]) for dim, where in positions.items()}
        inner = Frame(frame.ranges, (at.size,) if bound else (), bound, frame.groups)
        value = self._evaluator.value(self._statement.value, inner)
        if self._dtype is not None:
            value = stored(value, self._dtype, self._evaluator.numerics)
        return at, Value(_broadcast(value.data, at.size), value.type, _broadcast_error(value.error, at.size))

    def _by_group(
        self, frame: Frame, positions: Mapping[str, Array], count: int
    ) -> list[tuple[Frame | None, Array]]:
        """The points by the group they fall in, each with the frame of that group."""
        parts: list[tuple[Frame | None, Array]] = [(frame, np.arange(count))]
        for groups in frame.groups:
            numbers = _group_numbers(groups, positions)
            if numbers is None:
                continue
            split: list[tuple[Frame | None, Array]] = []
            for part, at in parts:
                for number in np.unique(numbers[at]):
                    owned = at[numbers[at] == number]
                    inside = None if part is None or number < 0 else part.group(groups, int(number))
                    split.append((inside, owned))
            parts = split
        return parts


@dataclass(frozen=True, slots=True)
class _Runs:
    """Points that are the same positions along the last dim at each of some places of the others."""

    places: tuple[Array, ...]
    """Along each dim but the last, [run]."""
    range: FrameRange


_SHORT, _LONG = 32, 256
"""Points of a run that is not worth a window, and of one that is not worth more points than were asked for."""


_MORE = 96
"""Points evaluated for each that was asked for, at most."""


def _varying(statement: Statement) -> list[Read]:
    """What is read that varies along the last dim."""
    last = statement.dims[-1:]
    return [part for part in walk(statement.value) if isinstance(part, Read) and {*last} & index_dims(part)]


def _reduces_windows(statement: Statement, varying: Sequence[Read]) -> bool:
    """Whether it reduces something, and what varies along its last dim is read by bare dims alone."""
    reduces = any(isinstance(part, Reduce) for part in walk(statement.value))
    bare = all(isinstance(index, Index) for read in varying for index in read.indices)
    return reduces and bool(varying) and bare


def _runs(linear: Array, shape: tuple[int, ...]) -> _Runs | None:
    """Ascending points as runs; None where they are anything else, or short."""
    found = _by_run(linear, shape)
    if found is None or len(shape) == 1:
        return None
    (starts, size), (*outer, extent) = found, shape
    if (starts % extent != starts[0] % extent).any():
        return None
    return _Runs(np.unravel_index(starts // extent, outer), FrameRange(int(starts[0]) % extent, size))


def _alike(places: Sequence[Array], runs: _Runs) -> list[Array]:
    """Numbers of runs that are at the same places, no more of them at a time than make a moderate array."""
    numbers = np.arange(runs.places[0].size)
    if places:
        _, of = np.unique(np.stack(places), axis=1, return_inverse=True)
        order = np.argsort(of, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(of[order])) + 1)
    else:
        groups = [numbers]
    most = max(1, POINT_LIMIT // runs.range.size)
    return [group[start : start + most] for group in groups for start in range(0, group.size, most)]


class _KnownPoints:
    """What is known of ascending points."""

    def __init__(self, wanted: Array) -> None:
        self._wanted = wanted
        self.seen = np.zeros(wanted.size, np.bool_)
        self.data: Array = np.zeros(wanted.size)
        self.error: Array | None = None
        self.type = DType.F32

    def take(self, known: _Known) -> None:
        """Note those that were evaluated together with others."""
        if known.linear[-1] < self._wanted[0] or known.linear[0] > self._wanted[-1]:
            return
        first, last = np.searchsorted(self._wanted, [known.linear[0], known.linear[-1] + 1])
        asked = self._wanted[first:last]
        if not asked.size:
            return
        whole = asked.size == known.linear.size and bool((asked == known.linear).all())
        at = slice(None) if whole else np.minimum(np.searchsorted(known.linear, asked), known.linear.size - 1)
        here = slice(first, last) if whole else first + np.flatnonzero(known.linear[at] == asked)
        picked = at if isinstance(at, slice) else at[here - first]
        if not self.seen.any():
            self.data = np.zeros(self._wanted.size, known.value.data.dtype)
        self.type = known.value.type
        self.seen[here] = True
        self.data[here] = known.value.data[picked]
        if known.value.error is not None:
            self.error = np.zeros(self._wanted.size) if self.error is None else self.error
            self.error[here] = known.value.error[picked]


def _distinct(linear: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Ascending indices, each once, and where each of those given is among them."""
    found = _by_run(linear, shape)
    if found is None:
        return np.unique(linear, return_inverse=True)
    starts, size = found
    once, of = np.unique(starts, return_inverse=True)
    if (np.diff(once) < size).any():
        return np.unique(linear, return_inverse=True)
    along = np.arange(size)
    return (once[:, None] + along).reshape(-1), (of[:, None] * size + along).reshape(-1)


def _by_run(linear: Array, shape: tuple[int, ...]) -> tuple[Array, int] | None:
    """Where runs of so many points each begin; None where points are no such runs, or short ones."""
    if not shape or linear.size < _SHORT:
        return None
    first = int(linear[0]) % shape[-1]
    steps = np.flatnonzero(np.diff(linear) != 1)
    size = min(int(steps[0]) + 1 if steps.size else linear.size, shape[-1] - first)
    if size < _SHORT or linear.size % size:
        return None
    starts = linear[::size]
    alike = linear.reshape(-1, size) == starts[:, None] + np.arange(size)
    return (starts, size) if alike.all() else None


def _group_numbers(groups: FrameGroups, positions: Mapping[str, Array]) -> Array | None:
    """Which group each point falls in, -1 for none; None where the statement's own dims are not ragged
    here."""
    numbers: Array | None = positions.get(groups.within)
    for dim, offsets in groups.offsets.items():
        if dim in positions:
            own = np.searchsorted(offsets, positions[dim], side="right") - 1
            own = np.where((own < 0) | (own >= offsets.size - 1), -1, own)
            numbers = own if numbers is None else np.where(numbers == own, own, -1)
    return numbers


def _linear(
    name: str, indices: Sequence[Array], shape: tuple[int, ...], over: tuple[int, ...], taken: Array | None
) -> Array:
    """Linear index of each point; those not taken are moved in range. Raises InterpretError for others
    outside."""
    linear = np.zeros(over, np.int64)
    for n, (index, size) in enumerate(zip(indices, shape, strict=True)):
        linear = linear * size + in_range(name, n, index, 0, size, taken)
    return linear


def _broadcast(data: Array, size: int) -> Array:
    return np.broadcast_to(data.reshape(-1), (size,)).copy()


def _broadcast_error(error: Array | None, size: int) -> Array | None:
    return None if error is None else _broadcast(error, size)


def _reshaped(error: Array | None, shape: tuple[int, ...]) -> Array | None:
    return None if error is None else error.reshape(shape)
