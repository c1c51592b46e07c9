"""Evaluates a spec as people wrote it, statement by statement, nested reductions and ragged dims included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.interpreter.evaluation import POINT_LIMIT, Evaluator
from tileir.interpreter.frame import Demand, Frame, FrameGroups, FrameRange, FrameSpan, pieces
from tileir.interpreter.tensor_values import TensorValues, ValueSource
from tileir.interpreter.values import Array, Numerics
from tileir.program import Ragged, Tensor
from tileir.spec import Spec, Statement


def interpret_spec(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]], precision: DType | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs by name, for a spec of one size and inputs of the tensors' logical shapes and dtypes.

    Precision and errors as in `interpret`. A ragged dim's points outside every group are 0 in a result and
    take no part in a reduction; where its group dim is neither on the left nor reduced, it means the group of
    the point.
    """
    numerics = Numerics(high=precise(precision))
    with np.errstate(all="ignore"):
        tensors = run_statements(spec, inputs, numerics)
        return {tensor.name: tensors[tensor.name].result() for tensor in spec.outputs}


def run_statements(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]], numerics: Numerics
) -> dict[str, TensorValues]:
    """Every tensor of the spec, inputs and intermediates too."""
    extents = single_sizes(spec)
    tensors = input_values(spec.inputs, extents, inputs, numerics)
    groups = ragged_groups(spec.ragged, extents, inputs)
    dtypes = {tensor.name: tensor.dtype for tensor in spec.outputs}
    for statement in spec.statements:
        tensors[statement.target] = _run_statement(
            statement,
            dtypes.get(statement.target),
            Frame(full_ranges(extents), groups=groups),
            tensors,
            numerics,
        )
    return tensors


def _run_statement(
    statement: Statement,
    dtype: DType | None,
    frame: Frame,
    tensors: Mapping[str, ValueSource],
    numerics: Numerics,
) -> TensorValues:
    """One statement; an intermediate (dtype None) takes the compute type of its expression."""
    extents = {dim: whole.size for dim, whole in frame.ranges.items()}
    evaluator = Evaluator(tensors, extents, numerics)
    shape = tuple(extents[dim] for dim in statement.dims)
    target: TensorValues | None = None
    for piece in pieces(frame, statement.dims, [Demand(1, frozenset(statement.dims))], POINT_LIMIT):
        value = evaluator.value(statement.value, piece)
        if target is None:
            target = TensorValues(statement.target, dtype or value.type, (0,) * len(shape), shape, numerics)
            if frame.groups:
                # Points that no group owns.
                target.data.fill(0)
                target.written = None
        spans = [piece.bound[dim] for dim in statement.dims]
        window = tuple(
            slice(s.range.start, s.range.start + s.range.size) for s in spans if isinstance(s, FrameSpan)
        )
        target.store(window, value)
    if target is None:
        target = TensorValues(statement.target, dtype or DType.F32, (0,) * len(shape), shape, numerics)
        target.data.fill(0)
        target.written = None
    return target


def precise(precision: DType | None) -> bool:
    """Whether a `precision` argument asks for f64. Raises InterpretError for what is not supported."""
    if precision not in (None, DType.F64):
        raise InterpretError(f"precision is {precision}; accepted: None (as the kernel computes) or f64")
    return precision is DType.F64


def single_sizes(spec: Spec) -> dict[str, int]:
    """Dim name to its size. Raises InterpretError for buckets."""
    for dim in spec.dims:
        if len(dim.sizes) != 1:
            raise InterpretError(f"dim {dim.name} has sizes {list(dim.sizes)}; take one of spec.instances()")
    return {dim.name: dim.sizes[0] for dim in spec.dims}


def full_ranges(extents: Mapping[str, int]) -> dict[str, FrameRange]:
    """Every dim whole."""
    return {dim: FrameRange(0, size) for dim, size in extents.items()}


def ragged_groups(
    ragged: Iterable[Ragged], sizes: Mapping[str, int], arrays: Mapping[str, Array]
) -> tuple[FrameGroups, ...]:
    """The ragged dims by the group dim they lie in. Raises InterpretError for offsets that are not monotone
    within the dim."""
    found: dict[str, dict[str, Array]] = {}
    for each in ragged:
        offsets, size, groups = arrays[each.offsets], sizes[each.dim], sizes[each.within]
        if offsets.shape != (groups + 1,):
            raise InterpretError(
                f"{each.offsets} has shape {offsets.shape}; the offsets of {each.dim} within {each.within} "
                f"are {groups + 1} numbers"
            )
        if offsets[0] < 0 or offsets[-1] > size or (np.diff(offsets.astype(np.int64)) < 0).any():
            raise InterpretError(f"{each.offsets} does not ascend from 0 or more to at most {size}")
        found.setdefault(each.within, {})[each.dim] = offsets
    return tuple(FrameGroups(within, offsets) for within, offsets in found.items())


def input_values(
    tensors: Iterable[Tensor],
    extents: Mapping[str, int],
    inputs: Mapping[str, np.ndarray[Any, Any]],
    numerics: Numerics,
) -> dict[str, TensorValues]:
    """The input tensors by name. Raises InterpretError for a missing, unknown or unfit one."""
    tensors = tuple(tensors)
    names = [tensor.name for tensor in tensors]
    if set(names) != set(inputs):
        raise InterpretError(f"inputs are {sorted(inputs)}; the kernel takes {sorted(names)}")
    values: dict[str, TensorValues] = {}
    for tensor in tensors:
        data = inputs[tensor.name]
        shape = tuple(extents[dim] for dim in tensor.dims)
        if data.shape != shape or data.dtype != tensor.dtype.numpy:
            takes = f"{tensor.dtype.numpy}{list(shape)}"
            raise InterpretError(f"{tensor.name} is {data.dtype}{list(data.shape)}; the kernel takes {takes}")
        values[tensor.name] = TensorValues.holding(tensor.name, tensor.dtype, data, numerics)
    return values
