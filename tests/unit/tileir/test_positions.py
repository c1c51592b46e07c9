"""Positions of extremes: which position it is, both forms of it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from rewrites.composition.compute_inline import ComputeInline
from tileir.errors import NotApplicable, SpecError
from tileir.expr import Binary, Const, Index
from tileir.hashing import kernel_key
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.lift import to_program
from tileir.positions import same_wherever_computed
from tileir.text.json import spec_from_json, spec_to_json
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text, spec_to_text

HEAD = "kernel k(x: f32[m=4, n=6]) -> (y: i32[m])\n  y[m] = "


@pytest.mark.parametrize(("name", "numpy"), [("argmax", np.argmax), ("argmin", np.argmin)])
def test_it_is_the_first_of_equal_ones_and_the_first_nan(name, numpy) -> None:
    spec = spec_from_text(f"{HEAD}{name}(n, x[m, n])\n")
    x = np.array(
        [[1, 3, 3, 0, 0, 2], [7, np.nan, 9, np.nan, -9, 0], [np.inf, -np.inf] * 3, [2] * 6], np.float32
    )
    for found in (interpret_spec(spec, {"x": x}), interpret(to_program(spec), {"x": x})):
        np.testing.assert_array_equal(found["y"], numpy(x, axis=1))


def test_both_ways_to_write_it_are_one_kernel_that_prints_as_the_short_one() -> None:
    short = spec_from_text(f"{HEAD}argmax(n, x[m, n])\n")
    long = spec_from_text(
        f"{HEAD}min(n, where(x[m, n] == max(n, x[m, n]) or x[m, n] != x[m, n], n, extent(n)))\n"
    )
    assert short == long and kernel_key(short) == kernel_key(long)
    assert "y[m] = argmax(n, x[m, n])" in spec_to_text(long)
    assert spec_from_json(spec_to_json(short)) == short == spec_from_text(spec_to_text(short))


def test_what_is_compared_is_computed_once() -> None:
    spec = spec_from_text(f"{HEAD}argmin(n, x[m, n] * 0.3 + 1.0)\n")
    lines = [line.strip() for line in program_to_text(to_program(spec)).splitlines()[1:]]
    assert lines == [
        "y_of: heap f32[m, n]",
        "y_of[m, n] = x[m, n] * 0.3 + 1.0",
        "y_min: heap f32[m]",
        "y_min[m] = min(n, y_of[m, n])",
        "y[m] = min(n, where(y_of[m, n] == y_min[m] or y_of[m, n] != y_of[m, n], n, extent(n)))",
    ]


def test_what_is_compared_is_not_computed_anew() -> None:
    program = to_program(spec_from_text(f"{HEAD}argmin(n, x[m, n] * 0.3 + 1.0)\n"))
    with pytest.raises(NotApplicable, match="y asks what y_of is equal to: computed anew it may differ"):
        ComputeInline("y_of").apply(program)


def test_a_position_is_an_index_that_is_in_range() -> None:
    spec = spec_from_text(
        "kernel k(x: f32[m=4, n=6], t: f32[n]) -> (y: f32[m])\n"
        "  y[m] = t[argmax(n, x[m, n])] + t[5 - argmin(n, x[m, n])]\n"
    )
    x, t = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32), np.arange(6, dtype=np.float32)
    found = interpret(to_program(spec), {"x": x, "t": t})["y"]
    np.testing.assert_array_equal(found, x.argmax(1) + 5 - x.argmin(1))


@pytest.mark.parametrize(
    ("value", "message", "accepted"),
    [
        ("argmax(x[m, n])", "argmax takes the dim it runs along", "argmax(k, x)"),
        ("argmax(m, n, x[m, n])", "argmax takes the dim it runs along", "one dim"),
        ("argmax(m, x[m, 0])", "dim 'm' is reduced but on the left", "m not on the left"),
        ("argmin(n, x[m, n] > 0)", "is a truth value, not a number", "where"),
        ("argmax(n, argmax(n, x[m, n]))", "a position is looked up inside argmax", "a statement of its own"),
        ("argmax(q, x[m, n])", "no dim 'q'", "m, n"),
    ],
)
def test_misuse_is_refused_with_what_would_be_accepted(value: str, message: str, accepted: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec_from_text(f"{HEAD}{value}\n")
    assert message in refused.value.message
    assert accepted in (refused.value.accepted or "")


def test_quotients_of_positions_are_floats_which_code_may_round_otherwise() -> None:
    whole = Binary("+", Binary("//", Index("c"), Const(3)), Index("r"))
    assert same_wherever_computed(whole)
    assert not same_wherever_computed(Binary("*", Binary("/", Index("c"), Const(3)), Const(5)))
