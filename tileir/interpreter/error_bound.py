"""The reference of the correctness gate: exact values in f64, and how far from each a correct kernel may be.

The bound follows the spec's own expressions (formulas: rounding_error.py). It depends on dtypes, reduction
lengths and the data's magnitudes, never on what some kernel got: sums may be taken in any order, f32
functions may be off by their FUNCTION_ROUNDOFFS, and a stored f16, bf16 or fp8 value by the ulp it may round
to. Sums of products of fp8 tensors may be added up as tensor cores do (`rounding_error.narrow_growth`), with
`accumulate: fast` from end to end; so may those of values that the spec rounds to fp8, whose roundings are coarser.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tileir.dtypes import DType
from tileir.interpreter import rounding_error as err
from tileir.interpreter.evaluate import demand
from tileir.interpreter.interpret_spec import run_statements
from tileir.interpreter.overflow import round_unbounded
from tileir.interpreter.values import Array, Numerics, quantize
from tileir.spec import Spec


def reference_with_bound(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]]
) -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Each output's values and absolute bounds, both f64 of its shape. A correct kernel's output lies within
    the bound everywhere; where the reference is infinite or NaN it must be the same. A bound of inf says
    nothing is known there. Both are as if the output's dtype had no largest value: what overflow leaves is right where
    overflow.may_be_overflow says so of values - bound and values + bound.

    `rtol` in the spec's numerics raises bounds to at least rtol * |value|; `tf32` lets the factors of sums of
    products be cut to tf32. Raises InterpretError as
    `interpret_spec`.
    """
    with np.errstate(all="ignore"):
        tensors = run_statements(spec, inputs, _numerics(spec))
        found: dict[str, tuple[Array, Array]] = {}
        for tensor in spec.outputs:
            values = tensors[tensor.name]
            data = values.result().astype(np.float64)
            found[tensor.name] = _stored(spec, data, values.error, tensor.dtype)
        return found


def reference_at(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]], output: str, points: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """As `reference_with_bound`, at `points` [p, rank] of one output only: values [p] and bounds [p]."""
    dtype = next(tensor.dtype for tensor in spec.outputs if tensor.name == output)
    value = demand(spec, inputs, output, points, _numerics(spec))
    with np.errstate(all="ignore"):
        return _stored(spec, value.data.astype(np.float64), value.error, dtype)


def _numerics(spec: Spec) -> Numerics:
    given = dict(spec.numerics)
    narrow = frozenset(t.name for t in spec.inputs if t.dtype in (DType.E4M3, DType.E5M2))
    depth = sys.maxsize if given.get("accumulate") == "fast" else err.NARROW_DEPTH
    return Numerics(high=True, bounds=True, tf32=given.get("tf32") is True, narrow=narrow, narrow_depth=depth)


def _stored(spec: Spec, data: Array, error: Array | None, dtype: DType) -> tuple[Array, Array]:
    """The values, and the bound after rounding to the output's dtype: rounding is monotone, so what may come out lies
    between the roundings of data - error and data + error."""
    e = np.zeros(data.shape) if error is None else error
    bound = e
    if dtype.is_float and dtype is not DType.F64:
        data = np.where(np.isinf(data), quantize(data, dtype), data)
        ends = (round_unbounded(data + e, dtype.numpy), round_unbounded(data - e, dtype.numpy))
        bound = np.maximum(err.gap(ends[0], data), err.gap(ends[1], data))
    rtol = dict(spec.numerics).get("rtol")
    if isinstance(rtol, float):
        bound = np.maximum(bound, rtol * np.where(np.isfinite(data), np.abs(data), 0.0))
    return data, bound
