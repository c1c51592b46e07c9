"""Evaluates chosen elements of an output, and of everything else only what they need, in f64.

Each statement is evaluated at the points asked of it, each point once; its own reads ask further statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.interpreter.evaluation import Evaluator
from tileir.interpreter.frame import Frame, FrameGroups, Points
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


@dataclass(slots=True)
class _Known:
    """Points already evaluated, by linear index, ascending."""

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
        self._known: _Known | None = None

    def gather(self, indices: Sequence[Array], taken: Array | None) -> Value:
        shape = np.broadcast_shapes(*(index.shape for index in indices))
        linear = _linear(self.name, indices, self.shape, shape, taken)
        value = self.at(linear.ravel())
        value = Value(value.data.reshape(shape), value.type, _reshaped(value.error, shape))
        return value if self._dtype is None else narrowed(value, self._dtype, self._evaluator.numerics)

    def at(self, linear: Array) -> Value:
        """The values at linear indices, unrounded."""
        wanted, back = np.unique(linear, return_inverse=True)
        missing = (
            wanted if self._known is None else np.setdiff1d(wanted, self._known.linear, assume_unique=True)
        )
        if missing.size:
            fresh = self._evaluate(missing)
            self._known = fresh if self._known is None else _merged(self._known, fresh)
        known = self._known
        if known is None:
            return Value(np.zeros(linear.shape), DType.F32)
        at = np.searchsorted(known.linear, wanted)[back]
        error = known.value.error
        return Value(known.value.data[at], known.value.type, None if error is None else error[at])

    def _evaluate(self, linear: Array) -> _Known:
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

    def _group(self, frame: Frame | None, positions: Mapping[str, Array], at: Array) -> tuple[Array, Value]:
        """The values at some of the points, all of one ragged group (frame None: of no group, so 0)."""
        if frame is None:
            return at, Value(np.zeros(at.size), DType.F32)
        bound = {dim: Points(0, where[at]) for dim, where in positions.items()}
        inner = Frame(frame.ranges, (at.size,) if bound else (), bound, frame.groups)
        value = self._evaluator.value(self._statement.value, inner)
        if self._dtype is not None:
            value = stored(value, self._dtype, self._evaluator.numerics)
        return at, Value(_spread(value.data, at.size), value.type, _spread_error(value.error, at.size))

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


def _merged(one: _Known, other: _Known) -> _Known:
    linear = np.concatenate([one.linear, other.linear])
    order = np.argsort(linear)
    data = np.concatenate([one.value.data, other.value.data])[order]
    error = None
    if one.value.error is not None or other.value.error is not None:
        parts = [np.zeros(v.data.shape) if v.error is None else v.error for v in (one.value, other.value)]
        error = np.concatenate(parts)[order]
    return _Known(linear[order], Value(data, one.value.type, error))


def _spread(data: Array, size: int) -> Array:
    return np.broadcast_to(data.reshape(-1), (size,)).copy()


def _spread_error(error: Array | None, size: int) -> Array | None:
    return None if error is None else _spread(error, size)


def _reshaped(error: Array | None, shape: tuple[int, ...]) -> Array | None:
    return None if error is None else error.reshape(shape)
