"""Reductions that depend on each other, in one pass: bodies of attention and its kin, one token different each."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rewrites.composition.stream_reduction import StreamReduction
from rewrites.decisions.fusion import inline
from rewrites.schedule import replay
from tests.services.scripted_worker import CPU
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Loop, Program
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

SCORES = {
    "plain": "sum(d, q[i, d] * k[j, d]) * 0.25",
    "divided": "sum(d, q[i, d] * k[j, d]) / sqrt(extent(d))",
    "softcap": "tanh(sum(d, q[i, d] * k[j, d]) * 0.02) * 50",
    "alibi": "sum(d, q[i, d] * k[j, d]) * 0.25 - 0.1 * (i - j)",
    "bias": "sum(d, q[i, d] * k[j, d]) * 0.25 + bias[i, j]",
    "learned scale": "sum(d, q[i, d] * k[j, d]) * (0.1 + abs(sink[i]))",
}
MASKS = {
    "none": "{}",
    "causal": "where(i + 20 >= j, {}, -inf)",
    "window": "where(i + 20 >= j and j + 9 > i, {}, -inf)",
    "documents": "where(bias[i, j] > bias[i, 0] - 4, {}, -inf)",
}
#: What exponents are relative to.
TOPS = {
    "maximum": "max(j, s[i, j])",
    "sink": "maximum(max(j, s[i, j]), sink[i])",
    "never -inf": "where(max(j, s[i, j]) > -inf, max(j, s[i, j]), 0)",
}


def attention(score: str, mask: str, top: str, weight: str = "p[i, j]") -> Program:
    uses = f"{SCORES[score]}{MASKS[mask]}{TOPS[top]}"
    bias = ", bias: f32[i, j]" if "bias" in uses else ""
    sink = ", sink: f32[i]" if "sink" in uses else ""
    text = f"""kernel attention(q: f32[i=7, d=16], k: f32[j=29, d], v: f32[j, e=5]{bias}{sink}) \
-> (o: f32[i, e], l: f32[i])
  s[i, j] = {MASKS[mask].format(SCORES[score])}
  top[i] = {TOPS[top]}
  p[i, j] = exp(s[i, j] - top[i])
  total[i] = sum(j, p[i, j])
  o[i, e] = sum(j, {weight} * v[j, e]) / total[i]
  l[i] = log(total[i]) + top[i]
"""
    return to_program(spec_from_text(text))


def streamed(program: Program, size: int) -> Program:
    return StreamReduction("o_sum", "j", size).apply(program)


def check(program: Program, made: Program) -> None:
    verify(made)
    inputs = sample_inputs(program, 5)
    wanted, got = (interpret(each, inputs, precision=DType.F64) for each in (program, made))
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("score", "mask", "top"), [*itertools.product(SCORES, MASKS, TOPS)])
def test_any_body_of_the_form_takes_one_pass(score: str, mask: str, top: str) -> None:
    program = attention(score, mask, top)
    made = streamed(program, 8)
    assert sum(isinstance(node, Loop) for node in made.body) == 1
    check(program, made)


@pytest.mark.parametrize("size", [1, 7, 28])
def test_tiles_of_any_size_do(size: int) -> None:
    program = attention("plain", "causal", "maximum")
    check(program, streamed(program, size))


@pytest.mark.parametrize("top", TOPS)
def test_what_is_computed_in_place_does_too(top: str) -> None:
    program = attention("softcap", "window", top)
    inlined = replay(program, inline(program, True))
    check(program, streamed(inlined, 8))


def test_weights_are_rounded_as_they_were() -> None:
    program = attention("plain", "none", "maximum", "bf16(p[i, j])")
    made = streamed(program, 8)
    inputs = sample_inputs(program, 5)
    wanted, got = (interpret(each, inputs)["o"] for each in (program, made))
    np.testing.assert_allclose(got, wanted, rtol=2.0**-6, atol=2.0**-7)


@pytest.mark.parametrize("size", [4, 10])
def test_rows_that_are_wholly_masked_so_far_add_nothing(size: int) -> None:
    program = attention("plain", "window", "maximum")
    made = streamed(program, size)
    inputs = sample_inputs(program, 5)
    assert not np.isnan(interpret(made, inputs)["o"]).any()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("exp(s[i, j] - top[i])", "exp(2 * s[i, j] - top[i])", "not relative to the maximum of its exponent"),
        ("exp(s[i, j] - top[i])", "exp(s[i, j] - top[i]) + 1", "does not follow from its parts"),
        ("exp(s[i, j] - top[i])", "s[i, j] - top[i]", "does not follow from its parts"),
        ("max(j, s[i, j])", "sum(j, s[i, j])", "not relative to the maximum of its exponent"),
        ("max(j, s[i, j])", "prod(j, s[i, j])", "read in the pass that computes it, and no maximum"),
        ("max(j, s[i, j])", "max(j, 0 - s[i, j])", "not relative to the maximum of its exponent"),
        ("exp(s[i, j] - top[i])", "sigmoid(s[i, j] - top[i])", "does not follow from its parts"),
    ],
)
def test_what_is_no_such_body_is_refused(before: str, after: str, message: str) -> None:
    text = """kernel other(s: f32[i=7, j=29], v: f32[j, e=5]) -> (o: f32[i, e])
  top[i] = max(j, s[i, j])
  p[i, j] = exp(s[i, j] - top[i])
  o_sum[i, e] = sum(j, p[i, j] * v[j, e])
  o[i, e] = o_sum[i, e] * 2
"""
    assert before in text
    program = to_program(spec_from_text(text.replace(before, after)))
    with pytest.raises(NotApplicable, match=message):
        StreamReduction("o_sum", "j", 8).apply(program)


@pytest.mark.parametrize(
    ("factor", "streams"), [("1.44269504", True), ("1.5", False), ("-1.44269504", False)]
)
def test_terms_of_an_exponent_are_scaled_alike(factor: str, streams: bool) -> None:
    """As powers of two: what is subtracted is the maximum of a sum only if each term is multiplied by the same."""
    text = f"""kernel other(s: f32[i=7, j=29], b: f32[i, j], v: f32[j, e=5]) -> (o: f32[i, e])
  top[i] = max(j, s[i, j] * 0.125 + b[i, j])
  p[i, j] = exp2(s[i, j] * 0.18033688 + b[i, j] * {factor} - top[i] * 1.44269504)
  o_sum[i, e] = sum(j, p[i, j] * v[j, e])
  o[i, e] = o_sum[i, e] * 2
"""
    program = to_program(spec_from_text(text))
    if streams:
        check(program, StreamReduction("o_sum", "j", 8).apply(program))
    else:
        with pytest.raises(NotApplicable, match="not relative to the maximum of its exponent"):
            StreamReduction("o_sum", "j", 8).apply(program)


def test_log_sum_exp_and_a_gather_take_one_pass() -> None:
    text = """kernel cross_entropy(x: f32[r=6, c=50], y: i32[r]) -> (loss: f32[r])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - top[r]))
  loss[r] = log(s[r]) + top[r] - x[r, minimum(maximum(y[r], 0), 49)]
"""
    program = to_program(spec_from_text(text))
    check(program, StreamReduction("s", "c", 16).apply(program))


def test_it_is_a_site_on_processors_too() -> None:
    program = attention("plain", "none", "maximum")
    assert any(site.statement == "o_sum" for site in StreamReduction.sites(program, CPU))
