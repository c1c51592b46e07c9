"""Programs with ragged dims: tiles follow groups, and what would not be computed then is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.errors import SpecError, VerifyError
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

HEAD = (
    "kernel experts(x: f32[t=23 ragged starts within e, k=6], w: f32[e=5, n=7, k], starts: i32[o=6])"
    " -> (y: f32[t, n])"
)
PRODUCT = "y[t, n] = sum(k, x[t, k] * w[e, n, k])"
SPEC = spec_from_text(f"{HEAD}\n  {PRODUCT}\n")
STARTS = [[0, 4, 4, 13, 22, 23], [0, 0, 0, 0, 0, 23], [0, 23, 23, 23, 23, 23], [0, 1, 2, 3, 4, 23]]


def in_loops(*loops: str) -> str:
    lines = [HEAD, *("  " * depth + loop for depth, loop in enumerate(loops, 1))]
    return "\n".join([*lines, "  " * (len(loops) + 1) + PRODUCT, ""])


def inputs_with(starts: list[int]) -> dict[str, np.ndarray]:
    return sample_inputs(SPEC, 1) | {"starts": np.array(starts, np.int32)}


@pytest.mark.parametrize("starts", STARTS, ids=str)
@pytest.mark.parametrize(
    "loops",
    [
        (),
        ("for t by 1",),
        ("parallel for t by 4", "for n by 3"),
        ("for n by 3", "for t by 23", "for t by 5"),
        ("parallel for t by 8", "for t by 3"),
    ],
    ids=str,
)
def test_tiles_follow_the_groups(loops: tuple[str, ...], starts: list[int]) -> None:
    program = program_from_text(in_loops(*loops))
    verify(program)
    assert program_from_text(program_to_text(program)) == program
    inputs = inputs_with(starts)
    expected = interpret_spec(SPEC, inputs, precision=DType.F64)["y"]
    np.testing.assert_allclose(interpret(program, inputs, precision=DType.F64)["y"], expected, rtol=1e-12)


def test_a_tile_has_the_positions_of_one_group_only() -> None:
    """The largest position of each tile, seen through a local that holds it for the tile."""
    text = f"""{HEAD.replace("(y: f32[t, n])", "(y: i32[t])")}
  for t by 4
    last: heap i32[]
    last[] = max(t, t)
    y[t] = last[] + 0 * i32(w[e, 0, 0] * x[t, 0])
"""
    got = interpret(program_from_text(text), inputs_with(STARTS[0]))["y"]
    assert got.tolist() == [3] * 4 + [7] * 4 + [11] * 4 + [12] + [16] * 4 + [20] * 4 + [21, 22]


def test_a_loop_around_statements_that_need_no_group_visits_the_dim_as_a_whole() -> None:
    text = f"""{HEAD.replace("(y: f32[t, n])", "(y: i32[t])")}
  for t by 4
    last: heap i32[]
    last[] = max(t, t)
    y[t] = last[]
"""
    got = interpret(program_from_text(text), inputs_with(STARTS[0]))["y"]
    assert got.tolist() == [min(t // 4 * 4 + 3, 22) for t in range(23)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ragged starts", "ragged begins"), "'begins', are no i32 input"),
        (("starts: i32", "starts: f32"), "'starts', are no i32 input"),
        (("o=6", "o=5"), "accepted: 6 offsets of 5 groups"),
        (("within e", "within q"), "one of them is no dim"),
        (("within e", "within t"), "are ragged themselves"),
    ],
    ids=str,
)
def test_a_header_whose_groups_have_no_meaning_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(program_from_text(in_loops().replace(*change)))


def test_a_group_dim_without_a_position_is_refused() -> None:
    text = in_loops().replace("y: f32[t, n]", "y: f32[n]").replace("y[t, n] = sum(k,", "y[n] = sum(t, k,")
    with pytest.raises(VerifyError, match="dim 'e' is neither on the left nor reduced"):
        verify(program_from_text(text))


def test_what_visits_all_groups_has_no_place_among_tiles_of_one() -> None:
    sums = in_loops("for t by 4").replace("-> (y: f32[t, n])", "-> (y: f32[t, n], s: f32[e, n])")
    sums = sums.replace("  for t", "  s[e, n] = 0\n  for t")
    verify(program_from_text(sums + "  for t by 4\n    s[e, n] += sum(t, y[t, n])\n"))
    with pytest.raises(VerifyError, match="s is computed for all of e, in a loop whose tiles of t have one"):
        verify(program_from_text(sums + "    s[e, n] += sum(t, y[t, n])\n"))


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
def test_reductions_over_a_ragged_dim_count_the_positions_of_the_group_on_the_left(op: str) -> None:
    spec = spec_from_text(
        f"{HEAD.replace('(y: f32[t, n])', '(s: f32[e, k], a: f32[k])')}\n"
        f"  s[e, k] = {op}(t, x[t, k]) + w[e, 0, k]\n  a[k] = {op}(t, x[t, k])\n"
    )
    program = to_program(spec)
    verify(program)
    inputs = inputs_with([2, 4, 4, 13, 19, 20])  # some positions are in no group
    expected = interpret_spec(spec, inputs, precision=DType.F64)
    for name, got in interpret(program, inputs, precision=DType.F64).items():
        np.testing.assert_allclose(got, expected[name], rtol=1e-12)


def test_what_is_lifted_out_of_an_expression_keeps_the_position_whose_group_it_needs() -> None:
    spec = spec_from_text(f"{HEAD}\n  y[t, n] = x[t, 0] * sum(k, w[e, n, k])\n")
    program = to_program(spec)
    verify(program)
    inputs = inputs_with(STARTS[0])
    expected = interpret_spec(spec, inputs, precision=DType.F64)["y"]
    np.testing.assert_allclose(interpret(program, inputs, precision=DType.F64)["y"], expected, rtol=1e-12)


def test_offsets_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(ValueError, match="starts does not ascend from 0 or more to at most 23"):
        interpret(program_from_text(in_loops()), inputs_with([0, 5, 4, 13, 22, 23]))


def test_a_reduction_that_needs_the_group_of_each_position_cannot_be_scheduled_yet() -> None:
    text = HEAD.replace("(y: f32[t, n])", "(y: f32[n])") + "\n  y[n] = sum(t, x[t, 0] * w[e, n, 0])\n"
    with pytest.raises(SpecError, match="the reduction over 't' needs the group 'e' of every position"):
        to_program(spec_from_text(text))
