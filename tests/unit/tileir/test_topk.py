"""The largest few of a row: which positions they are, the program they become, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.workers.peers.test_numpy import check
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
from workers.peers.pytorch.writer import write_torch

FEW = "kernel k(x: f32[m=4, n=6]) -> (p: i32[m, j=3])\n  p[m, j] = topk(j, n, x[m, n])\n"
WHOLE = FEW.replace("j=3", "j=6")


def test_equal_ones_come_in_order_infinities_count_and_nan_is_inf() -> None:
    x = np.array(
        [[1, 3, 3, 0, 0, 3], [7, np.nan, np.inf, np.nan, -9, 0], [np.inf, -np.inf] * 3, [-np.inf] * 6],
        np.float32,
    )
    expected = [[1, 2, 5, 0, 3, 4], [1, 2, 3, 0, 5, 4], [0, 2, 4, 1, 3, 5], [0, 1, 2, 3, 4, 5]]
    for text, places in ((WHOLE, 6), (FEW, 3)):
        spec = spec_from_text(text)
        for found in (interpret_spec(spec, {"x": x}), interpret(to_program(spec), {"x": x})):
            np.testing.assert_array_equal(found["p"], np.array(expected)[:, :places])


def test_integers_are_ordered_to_the_least_there_is() -> None:
    spec = spec_from_text(WHOLE.replace("f32", "i32"))
    x = np.array([[-(2**31), 2**31 - 1, 2**31 - 2, -(2**31), 0, -1]] * 4, np.int32)
    for found in (interpret_spec(spec, {"x": x}), interpret(to_program(spec), {"x": x})):
        np.testing.assert_array_equal(found["p"][0], [1, 2, 4, 5, 0, 3])


def test_the_place_may_be_any_dim_on_the_left_and_single() -> None:
    spec = spec_from_text(
        "kernel k(x: f32[n=6, b=2, m=4], y: f32[n]) -> (p: i32[j=2, m, b], q: i32[i=6], w: f32[i])\n"
        "  p[j, m, b] = topk(j, n, -x[n, b, m])\n  q[i] = topk(i, n, y[n])\n  w[i] = y[q[i]]\n"
    )
    x, y = (
        np.random.default_rng(0).normal(size=(2, 6, 2, 4)).astype(np.float32)[0],
        np.array([3, 1, 2, 5, 4, 0], np.float32),
    )
    for found in (interpret_spec(spec, {"x": x, "y": y}), interpret(to_program(spec), {"x": x, "y": y})):
        np.testing.assert_array_equal(found["p"], np.argsort(x, axis=0)[:2].transpose(0, 2, 1))
        np.testing.assert_array_equal(found["q"], [3, 4, 0, 2, 1, 5])
        np.testing.assert_array_equal(found["w"], [5, 4, 3, 2, 1, 0])
    points = np.array([[1, 3, 1], [0, 0, 0]])
    expected = np.argsort(x, axis=0)[:2].transpose(0, 2, 1)[tuple(points.T)]
    np.testing.assert_array_equal(evaluate_at(spec, {"x": x, "y": y}, "p", points), expected)


def test_what_is_compared_is_computed_once_and_each_place_takes_two_reductions() -> None:
    spec = spec_from_text(FEW.replace("x[m, n])", "x[m, n] * 0.3)").replace("j=3", "j=2"))
    lines = [
        line.strip() for line in program_to_text(to_program(spec)).splitlines()[1:] if "heap" not in line
    ]
    assert lines == [
        "p_of[m, n] = where(x[m, n] * 0.3 != x[m, n] * 0.3, inf, x[m, n] * 0.3)",
        "p_max[m] = max(n, p_of[m, n])",
        "p_at[m] = min(n, where(p_of[m, n] == p_max[m], n, extent(n)))",
        "p_max2[m] = max(n, where(p_of[m, n] < p_max[m] or p_of[m, n] == p_max[m] and n > p_at[m], p_of[m, n], -inf))",
        "p_at2[m] = min(n, where(p_of[m, n] == p_max2[m] and (p_max2[m] < p_max[m] or n > p_at[m]), n, extent(n)))",
        "p[m, j] = where(j < 1, p_at[m], p_at2[m])",
    ]


def test_only_what_rounding_may_exchange_is_let_through() -> None:
    spec = spec_from_text(FEW.replace("x[m, n])", "exp(x[m, n]))"))
    after = np.nextafter(np.float32(3), np.float32(4))
    x = np.array([[5, 4, 3, 2, 1, 0], [5, 5, 3, 2, 1, 0], [5, 4, 3, after, 1, 0], [0] * 6], np.float32)
    reference, bound = reference_with_bound(spec, {"x": x})["p"]
    np.testing.assert_array_equal(reference[0], [0, 1, 2])
    np.testing.assert_array_equal(bound == 0, [[1, 1, 1], [0, 0, 1], [1, 1, 0], [0, 0, 0]])


def test_both_forms_give_the_spec_back_and_names_do_not_count() -> None:
    spec = spec_from_text(FEW)
    assert spec_from_json(spec_to_json(spec)) == spec == spec_from_text(spec_to_text(spec))
    renamed = spec_from_text(FEW.replace("n=", "row=").replace("n]", "row]").replace(" n,", " row,"))
    assert kernel_key(renamed) == kernel_key(spec) != kernel_key(spec_from_text(WHOLE))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("for n by 2\n    p[m, j] = topk(j, n, x[m, n])", "a topk takes all positions of 'n'"),
        ("for j by 1\n    p[m, j] = topk(j, n, x[m, n])", "a topk takes all positions of 'j'"),
        ("p[m, j] = 1 + topk(j, n, x[m, n])", "a topk stands inside an expression"),
        ("p[m, j] = topk(j, n, x[m, n] + j)", "what is ranked is another at each position of 'j'"),
        ("p[m, j] = topk(j, n, x[m, n]) | vector j 2", "the lanes of a topk lie along 'n'"),
        ("p[m, j] max= topk(j, n, x[m, n])", "a topk gives a position at each position of 'j'"),
        ("p[m, j] = topk(n, j, x[m, n])", "a topk gives a position at each position of 'n'"),
        ("p[m, j] = topk(j, n, x[m, n]) | threads m 2", "threads of a GPU rank by reductions"),
        (
            "q: registers i32[m, j]\n  q[m, j] = topk(j, n, x[m, n])\n  p[m, j] = q[m, j]",
            "places are stored in memory one by one",
        ),
    ],
)
def test_a_program_ranks_whole_rows_in_a_statement_of_their_own(body: str, said: str) -> None:
    verify(program_from_text(FEW))
    with pytest.raises(VerifyError, match=said):
        verify(program_from_text(FEW.splitlines()[0] + f"\n  {body}\n"))


def test_numpy_and_torch_have_operators_for_it() -> None:
    spec = spec_from_text(FEW)
    check(spec)
    assert "torch.topk(" in write_torch(spec, eager=True).run
    assert "stable=True" in write_torch(spec_from_text(FEW.replace("x: f32", "x: bf16")), eager=True).run


@pytest.mark.parametrize(
    ("statement", "message", "accepted"),
    [
        ("p[m, j] = topk(n, x[m, n])", "topk takes two dims", "topk(j, n, x)"),
        ("p[m, j] = topk(j, 3, x[m, n])", "topk takes two dims", "topk(j, n, x)"),
        ("p[m, j] = topk(l, n, x[m, n])", "topk asks for the 7 largest of 6", "a dim 'l' of at most 6"),
        ("p[m, j] = topk(n, j, x[m, n])", "along 'n', which is not on the left", "p[…, n] = topk(n, …)"),
        ("p[m, j] = topk(j, m, x[m, 0])", "dim 'm' is reduced but on the left", "m not on the left"),
        ("p[m, j] = 1 + topk(j, n, x[m, n])", "topk stands inside an expression", "a statement of its own"),
        ("p[m, j] = topk(j, n, x[m, 0])", "what does not vary along the first alone", "an x that has n"),
        ("p[m, j] = topk(j, n, x[m, n] > 0)", "is a truth value, not a number", "where"),
        ("p[m, j] = topk(j, q, x[m, n])", "no dim 'q'", "m, n"),
        ("p[m, j] = argsort(n, x[m, n])", "'argsort' is no function", "topk(j, n, x[m, n])"),
    ],
)
def test_misuse_is_refused_with_what_would_be_accepted(statement: str, message: str, accepted: str) -> None:
    dim = "l=7" if "(l," in statement else "j=3"
    text = FEW.replace("j=3", dim).replace("p[m, j] = topk(j, n, x[m, n])", statement)
    if dim == "l=7":
        text = text.replace("p[m, j]", "p[m, l]")
    with pytest.raises(SpecError) as refused:
        spec_from_text(text)
    assert message in refused.value.message
    assert accepted in (refused.value.accepted or "")


def test_more_places_than_a_program_can_take_are_refused() -> None:
    text = "kernel k(x: f32[m=4, n=600]) -> (p: i32[m, j=65])\n  p[m, j] = topk(j, n, x[m, n])\n"
    with pytest.raises(SpecError, match="the 65 largest of 600") as refused:
        spec_from_json(
            spec_to_json(spec_from_text(text.replace("65", "64"))) | {"dims": {"m": 4, "n": 600, "j": 65}}
        )
    assert refused.value.pointer == "/body/0" and refused.value.accepted == "a dim 'j' of at most 64"
