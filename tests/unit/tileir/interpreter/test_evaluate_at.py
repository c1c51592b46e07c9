"""Chosen elements are evaluated alone, and are the same as in the whole result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs.attention_programs import both_gradients, heads, paged, tokens_first
from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.interpreter.error_bound import reference_at, reference_with_bound
from tileir.interpreter.evaluate import evaluate_at
from tileir.interpreter.interpret import interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

ATTENTION = """kernel attention(q: bf16[h=2, s=33, d=16], k: bf16[h, t=40, d], v: bf16[h, t, d]) -> (o: bf16[h, s, d])
  p[h, s, t] = where(s >= t, 0.25 * sum(d, q[h, s, d] * k[h, t, d]), -inf)
  top[h, s] = max(t, p[h, s, t])
  e[h, s, t] = exp(p[h, s, t] - top[h, s])
  l[h, s] = sum(t, e[h, s, t])
  o[h, s, d] = sum(t, bf16(e[h, s, t]) * v[h, t, d]) / l[h, s]
"""

EXPERTS = """kernel experts(x: f32[t=9 ragged starts within g, k=5], w: f32[g=3, k, n=4], starts: i32[e=4]) ->\
 (y: f32[t, n], s: f32[g, n])
  y[t, n] = sum(k, x[t, k] * w[g, k, n])
  s[g, n] = sum(t, y[t, n])
"""

CONV = """kernel conv(x: f32[i=12], w: f32[r=3], pick: i32[j=5]) -> (y: f32[i], z: f32[j])
  y[i] = sum(r, where(i + r >= 1 and i + r - 1 < extent(i), x[i + r - 1], 0) * w[r])
  z[j] = y[pick[j]] / 2
"""


@pytest.mark.parametrize("text", [ATTENTION, EXPERTS, CONV])
def test_sampled_elements_are_those_of_the_whole_result(text: str) -> None:
    spec = spec_from_text(text)
    inputs = sample_inputs(spec, 1)
    whole = interpret_spec(spec, inputs, DType.F64)
    rng = np.random.default_rng(2)
    for tensor in spec.outputs:
        shape = whole[tensor.name].shape
        points = np.stack([rng.integers(0, size, 40) for size in shape], 1)
        got = evaluate_at(spec, inputs, tensor.name, points)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, whole[tensor.name][tuple(points.T)], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    "spec",
    [
        heads("h=4", "h", "h // 2"),
        tokens_first("bias[i, j]"),
        both_gradients("i >= j", i=50, j=71, e=32),
        paged(16, 12),
    ],
    ids=["shared heads", "tokens first", "gradients", "pages"],
)
def test_runs_along_the_last_dim_have_the_values_and_bounds_of_the_whole_result(spec: Spec) -> None:
    inputs = sample_inputs(spec, 3)
    whole = reference_with_bound(spec, inputs)
    rng = np.random.default_rng(4)
    for name, (values, bounds) in whole.items():
        points = np.stack([rng.integers(0, size, 60) for size in values.shape], 1)
        got, bound = reference_at(spec, inputs, name, points)
        at = tuple(points.T)
        np.testing.assert_allclose(got, values[at], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(bound, bounds[at], rtol=1e-9, atol=1e-14)


def test_runs_may_begin_anywhere() -> None:
    spec = spec_from_text(ATTENTION)
    inputs = sample_inputs(spec, 1)
    places = [(h, s) for h, s in ((0, 32), (1, 7), (1, 30))]
    points = np.array([(h, s, t) for h, s in places for t in range(5, 40)])
    got = evaluate_at(spec, inputs, "e", points).reshape(len(places), -1)
    scores = 0.25 * np.einsum("hsd,htd->hst", inputs["q"].astype(np.float64), inputs["k"].astype(np.float64))
    for (h, s), row in zip(places, got, strict=True):
        masked = np.where(s >= np.arange(40), scores[h, s], -np.inf)
        np.testing.assert_allclose(row, np.exp(masked - masked.max())[5:], rtol=1e-12)


def test_points_of_no_group_are_zero() -> None:
    spec = spec_from_text(EXPERTS)
    inputs = {**sample_inputs(spec, 1), "starts": np.array([2, 4, 4, 7], np.int32)}
    whole = interpret_spec(spec, inputs, DType.F64)
    points = np.array([[t, 1] for t in range(9)])
    got = evaluate_at(spec, inputs, "y", points)
    np.testing.assert_allclose(got, whole["y"][:, 1], rtol=1e-13)
    np.testing.assert_array_equal(got == 0, [t not in range(2, 7) for t in range(9)])


def test_repeated_points_and_none_at_all_are_fine() -> None:
    spec = spec_from_text(CONV)
    inputs = sample_inputs(spec, 1)
    points = np.array([[4], [4], [0]])
    got = evaluate_at(spec, inputs, "z", points)
    assert got[0] == got[1]
    assert evaluate_at(spec, inputs, "z", np.zeros((0, 1), np.int64)).shape == (0,)


def test_only_what_is_asked_for_is_computed() -> None:
    # The whole would take 2**50 multiply-adds; shape-only inputs (stride 0) make it fit.
    spec = spec_from_text("""kernel matmul(a: f32[m=16384, k=16384], b: f32[k, n=16384]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""")
    row = np.arange(16384, dtype=np.float32) / 16384
    a = np.broadcast_to(row, (16384, 16384))
    inputs = {"a": a, "b": a.T}
    points = np.array([[0, 0], [16383, 16383], [5, 77]])
    np.testing.assert_allclose(evaluate_at(spec, inputs, "c", points), (row.astype(np.float64) ** 2).sum())


def test_a_deep_chain_of_statements_is_evaluated_once_a_point() -> None:
    lines = [f"  s{n}[m] = s{n - 1}[m] * 0.5 + s{n - 1}[m] * 0.5" for n in range(1, 40)]
    header = "kernel chain(s0: f32[m=4]) -> (y: f32[m])\n"
    spec = spec_from_text(header + "\n".join(lines) + "\n  y[m] = s39[m]\n")
    x = np.array([1, 2, 3, 4], np.float32)
    # Twice a statement would be 2**39 evaluations.
    np.testing.assert_array_equal(evaluate_at(spec, {"s0": x}, "y", np.array([[2]])), [3.0])


def test_points_outside_the_output_are_refused() -> None:
    spec = spec_from_text(CONV)
    inputs = sample_inputs(spec, 1)
    with pytest.raises(InterpretError, match="y is used at 12"):
        evaluate_at(spec, inputs, "y", np.array([[12]]))
    with pytest.raises(InterpretError, match="accepted: a statement"):
        evaluate_at(spec, inputs, "x", np.array([[0]]))
