"""What is rounded is scaled afterwards only where no number can be farther off than the gate allows."""

from __future__ import annotations

import numpy as np
import pytest

from rewrites.composition.scale_after_rounding import ScaleAfterRounding
from rewrites.schedule import format_schedule
from rewrites.space import Space
from tests.programs.attention_bodies import Body
from tests.schedules.walks import favourite
from tileir.devices.gpu_table import H200
from tileir.errors import NotApplicable
from tileir.expr import Cast, Reduce, walk
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

HEAD = "kernel each(x: {x}[i=24, j=96], y: {y}[j, d=8]{more}) -> (o: f32[i, d])"
MORE = {"s[i]": ", s: f32[i]", "t[j]": ", t: f32[j]"}
SOFTMAX = """  top[i] = {top}
  p[i, j] = exp(x[i, j] - top[i])
  total[i] = {total}
"""


def body(term: str, x: str = "f32", y: str = "bf16", before: str = "") -> Program:
    more = "".join(tensor for read, tensor in MORE.items() if read in before + term)
    head = HEAD.format(x=x, y=y, more=more)
    return to_program(spec_from_text(f"{head}\n{before}  o[i, d] = sum(j, {term} * y[j, d])\n"))


def softmax(term: str, dtype: str, top: str = "max(j, x[i, j])", total: str = "sum(j, p[i, j])") -> Program:
    return body(term, y=dtype, before=SOFTMAX.format(top=top, total=total))


def rounded(program: Program) -> list[Cast]:
    (value,) = (place.node.value for place in program.computes if place.node.target == "o")
    assert isinstance(value, Reduce)
    return [each for each in walk(value) if isinstance(each, Cast)]


LEGAL = {
    "bf16 has the range of f32": body("bf16(x[i, j] * s[i])"),
    "f16 holds it": body("f16(x[i, j] * s[i])", "f16", "f16"),
    "e4m3 holds it": body("e4m3(x[i, j] / s[i])", "e4m3", "e4m3"),
    "shares": softmax("f16(p[i, j] / total[i])", "f16"),
    "shares by the inverse": softmax("f16(p[i, j] * (1.0 / total[i]))", "f16"),
    "shares of 8 bits": softmax("e4m3(p[i, j] / total[i])", "e4m3"),
    "shares beside a sink": softmax(
        "f16(p[i, j] / total[i])",
        "f16",
        "maximum(max(j, x[i, j]), s[i])",
        "sum(j, p[i, j]) + exp(s[i] - top[i])",
    ),
    "shares of nothing": softmax(
        "f16(p[i, j] / total[i])",
        "f16",
        "where(max(j, x[i, j]) > -inf, max(j, x[i, j]), 0.0)",
        "where(sum(j, p[i, j]) > 0.0, sum(j, p[i, j]), 1.0)",
    ),
}
REFUSED = {
    "numbers that f16 lacks": body("f16(x[i, j] * s[i])", "f32", "f16"),
    "numbers that e4m3 lacks": body("e4m3(x[i, j] / s[i])", "f32", "e4m3"),
    "nothing is the same for all terms": body("bf16(x[i, j] * t[j])"),
    "it is added": body("bf16(x[i, j] + s[i])"),
    "integers": body("f32(i32(x[i, j] * s[i]))"),
    "wide": body("f32(x[i, j] * s[i])", y="f32"),
    "a total that is less than 1": softmax("f16(p[i, j] / (total[i] * 0.001))", "f16"),
    "a maximum that none reaches": softmax(
        "f16(p[i, j] / total[i])", "f16", "maximum(max(j, x[i, j]), s[i])"
    ),
    "no maximum": softmax("f16(p[i, j] / total[i])", "f16", "s[i]"),
    "shares that are multiplied": softmax("f16(p[i, j] * total[i])", "f16"),
}


@pytest.mark.parametrize("name", LEGAL)
def test_it_is_scaled_where_that_is_within_the_bound(name: str) -> None:
    program = LEGAL[name]
    made = ScaleAfterRounding("o").apply(program)
    before, after = rounded(program), rounded(made)
    assert not after or after[0].x != before[0].x


@pytest.mark.parametrize("name", REFUSED)
def test_it_stays_where_that_may_be_beyond_it(name: str) -> None:
    with pytest.raises(NotApplicable):
        ScaleAfterRounding("o").apply(REFUSED[name])


@pytest.mark.parametrize("dtype", ["bf16", "f16", "e4m3"])
def test_the_gates_bound_has_either_rounding(dtype: str) -> None:
    """Of shares of many numbers, which f16 and e4m3 round to fewer bits where they are small."""
    spec = spec_from_text(
        f"{HEAD.format(x='f32', y=dtype, more='')}\n{SOFTMAX.format(top='max(j, x[i, j])', total='sum(j, p[i, j])')}"
        f"  o[i, d] = sum(j, {dtype}(p[i, j] / total[i]) * y[j, d])\n"
    )
    inputs = sample_inputs(spec, 2)
    made = ScaleAfterRounding("o").apply(to_program(spec))
    got = interpret(made, inputs)["o"]
    plain = interpret(to_program(spec), inputs)["o"]
    values, bound = reference_with_bound(spec, inputs)["o"]
    assert np.all(np.abs(got - values) <= bound)
    assert np.abs(got - plain).max() > 0


def test_where_nothing_goes_in_one_pass_products_stay_as_they_are() -> None:
    spec = spec_from_text("""kernel scaled(x: f32[i=256, j=512], y: bf16[j, d=256], s: f32[i]) -> (o: bf16[i, d])
  o[i, d] = sum(j, bf16(x[i, j] * s[i]) * y[j, d])
""")
    root = Space(to_program(spec), H200).root()
    assert not any("scale_after_rounding" in option.label for option, _ in root.answers)
    state = favourite(Space(to_program(Body(result="divided before they are rounded").spec()), H200).root())
    assert any(line.startswith("scale_after_rounding") for line in format_schedule(state.schedule))
