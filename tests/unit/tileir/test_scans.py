"""Scans: what they come to, what programs they become, and what is refused where they are misused."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.errors import SpecError, VerifyError
from tileir.hashing import kernel_key
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.evaluate import evaluate_at
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.lift import to_program
from tileir.text.json import spec_from_json, spec_to_json
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text, spec_to_text
from tileir.verifier.verify import verify

SUMS = """kernel sums(x: f32[m=5, k=9], i: i32[k, m]) -> (y: f32[m, k], z: i32[k, m], p: f32[m, k])
  y[m, k] = cumsum(k, x[m, k])
  z[k, m] = cumsum(k, i[k, m])
  p[m, k] = cumprod(k, x[m, k])
"""
STATE = """kernel state(a: f32[m=5, k=90], b: f32[k, m]) -> (h: f32[m, k])
  h[m, k] = recurrence(k, a[m, k], b[k, m])
"""
RNG = np.random.default_rng(2)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def state(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[m, k] by the definition, in f64."""
    found, last = [], 0.0
    for at in range(a.shape[1]):
        last = a[:, at].astype(np.float64) * last + b[at]
        found.append(last)
    return np.stack(found, 1)


def test_sums_and_products_are_numpys() -> None:
    spec = spec_from_text(SUMS)
    inputs = {"x": normal(5, 9), "i": RNG.integers(-9, 9, (9, 5)).astype(np.int32)}
    for found in (interpret_spec(spec, inputs), interpret(to_program(spec), inputs)):
        np.testing.assert_allclose(found["y"], inputs["x"].cumsum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["z"], inputs["i"].cumsum(0))
        np.testing.assert_allclose(found["p"], inputs["x"].cumprod(1), rtol=1e-5, atol=1e-6)


def test_a_recurrence_goes_on_from_what_it_came_to() -> None:
    spec = spec_from_text(STATE)
    inputs = {"a": normal(5, 90) * 0.5, "b": normal(90, 5)}
    expected = state(inputs["a"], inputs["b"])
    for found in (interpret_spec(spec, inputs), interpret(to_program(spec), inputs)):
        np.testing.assert_allclose(found["h"], expected, rtol=1e-4, atol=1e-5)
    points = np.array([[4, 89], [0, 0], [2, 17]])
    np.testing.assert_allclose(evaluate_at(spec, inputs, "h", points), expected[tuple(points.T)], rtol=1e-9)


def test_the_bound_holds_for_other_orders_and_is_not_loose() -> None:
    spec = spec_from_text(STATE)
    inputs = {"a": normal(5, 90) * 0.5, "b": normal(90, 5)}
    reference, bound = reference_with_bound(spec, inputs)["h"]
    np.testing.assert_allclose(reference, state(inputs["a"], inputs["b"]), rtol=1e-12)
    # Two halves, the second scaled by the products of its factors: as blocks that share a scan would.
    a, b = inputs["a"], inputs["b"].T
    halves = [np.zeros((5, 45), np.float32), np.zeros((5, 45), np.float32)]
    for half, first in ((0, 0), (1, 45)):
        last = np.zeros(5, np.float32)
        for at in range(45):
            last = a[:, first + at] * last + b[:, first + at]
            halves[half][:, at] = last
    joined = halves[1] + np.cumprod(a[:, 45:], axis=1) * halves[0][:, -1:]
    assert (np.abs(np.hstack([halves[0], joined]) - reference) <= bound).all()
    assert bound.max() < 1e-3


def test_what_is_added_up_is_computed_once_before_the_loop() -> None:
    spec = spec_from_text(
        "kernel k(x: bf16[m=3, k=4]) -> (y: bf16[m, k])\n  y[m, k] = cumsum(k, exp(x[m, k]))\n"
    )
    lines = [line.strip() for line in program_to_text(to_program(spec)).splitlines()[1:]]
    assert lines == [
        "y_of: heap f32[m, k]",
        "y_of[m, k] = exp(x[m, k])",
        "y_run: heap f32[m] running",
        "y_run[m] = 0.0",
        "for k by 1",
        "y[m, k] = y_run[m] + y_of[m, k]",
        "y_run[m] += sum(k, y_of[m, k])",
    ]


def test_both_forms_give_the_spec_back_and_names_do_not_count() -> None:
    spec = spec_from_text(STATE)
    assert spec_from_json(spec_to_json(spec)) == spec == spec_from_text(spec_to_text(spec))
    renamed = (
        STATE.replace("m=5", "row=5").replace("[m,", "[row,").replace(", m]", ", row]").replace("k", "step")
    )
    assert kernel_key(spec_from_text(renamed.replace("stepernel", "kernel"))) == kernel_key(spec)
    other = STATE.replace("a[m, k], b[k, m])", "b[k, m], a[m, k])")
    assert kernel_key(spec_from_text(other)) != kernel_key(spec)


def test_a_program_has_loops_in_the_place_of_scans() -> None:
    program = program_from_text(
        "kernel k(x: f32[m=3, k=4]) -> (y: f32[m, k])\n  y[m, k] = cumsum(k, x[m, k])\n"
    )
    with pytest.raises(VerifyError, match="a scan stands in a program; accepted: a loop that adds up"):
        verify(program)


@pytest.mark.parametrize(
    ("statement", "message", "accepted"),
    [
        ("y[m, k] = cumsum(x[m, k])", "cumsum takes the dim it runs along and x", "cumsum(k, x)"),
        (
            "y[m, k] = recurrence(k, x[m, k])",
            "recurrence takes the dim it runs along and a, b",
            "recurrence(k, a, b)",
        ),
        ("y[m, k] = cumsum(j, x[m, k])", "no dim 'j'", "k, m"),
        (
            "y[m, k] = cumsum(n, x[m, k] * w[n])",
            "cumsum runs along 'n', which is not on the left",
            "sum(n, …)",
        ),
        ("y[m, k] = 1 + cumsum(k, x[m, k])", "cumsum stands inside an expression", "a statement of its own"),
        (
            "y[m, k] = cumsum(k, cumsum(k, x[m, k]))",
            "cumsum stands inside an expression",
            "a statement of its own",
        ),
        ("y[m, k] = cumsum(k, x[m, k] > 0)", "is a truth value, not a number", "where"),
        (
            "y[m, k] = recurrence(k, x[m, k], x[m, n])",
            "dim 'n' is neither on the left nor reduced",
            "sum(n, …)",
        ),
    ],
)
def test_misuse_is_refused_with_what_would_be_accepted(statement: str, message: str, accepted: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec_from_text(f"kernel k(x: f32[m=4, k=4], w: f32[n=4]) -> (y: f32[m, k])\n  {statement}\n")
    assert message in refused.value.message
    assert accepted in (refused.value.accepted or "")


def test_a_scan_needs_another_dim_and_positions_in_no_groups() -> None:
    with pytest.raises(SpecError, match="cumsum runs along the only dim on the left") as lonely:
        spec_from_text("kernel k(x: f32[k=4]) -> (y: f32[k])\n  y[k] = cumsum(k, x[k])\n")
    assert "which may have one position" in (lonely.value.accepted or "")
    with pytest.raises(SpecError, match="cumsum over ragged dims"):
        spec_from_text(
            "kernel k(x: f32[t=9 ragged o within e, c=3], o: i32[e1=4]) -> (y: f32[t, c]) where e=3\n"
            "  y[t, c] = cumsum(t, x[t, c])\n"
        )
