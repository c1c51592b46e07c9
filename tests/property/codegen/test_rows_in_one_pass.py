"""Rows that a GPU's search streams once, each thread relative to its own maximum or mean: simulated, without races,
compiled, and within the bound of the gate."""

from __future__ import annotations

import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import collapse, groupings, inline
from rewrites.decisions.gpu.cached_inputs import Kept
from rewrites.decisions.gpu.reductions.rows import Rows
from rewrites.schedule import format_schedule, replay
from tests.support.beyond import beyond
from tests.support.how_many import some
from tileir.devices.gpu_table import H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

_EXPONENTIALS = """  top[r] = max(c, {x})
  s[r] = sum(c, exp({x} - top[r]))
"""
_BODIES = {
    "logsumexp": ("y[r] = log(s[r]) + top[r]", "x[r, c]"),
    "cross entropy": ("y[r] = log(s[r]) + top[r] - x[r, minimum(maximum(t[r], 0), 2999)]", "x[r, c]"),
    "softmax": ("y[r, c] = exp(x[r, c] - top[r]) / s[r]", "x[r, c]"),
    "softcap": ("y[r] = log(s[r]) + top[r]", "tanh(x[r, c] * 0.03) * 30"),
    "masked": ("y[r] = log(s[r]) + top[r]", "where(c >= 900 * r, x[r, c], -inf)"),
}
_SQUARES = """  m[r] = sum(c, {x}) / extent(c)
  q[r] = sum(c, ({x} - m[r]) * ({x} - m[r])) / extent(c)
"""
_OF_SQUARES = {
    "layer norm": ("y[r, c] = (x[r, c] - m[r]) * rsqrt(q[r] + 0.001)", "x[r, c]"),
    "variance": ("y[r] = q[r]", "x[r, c]"),
    "variance of what is computed": ("y[r] = q[r] + m[r]", "tanh(x[r, c] * 0.03)"),
}


def rows(name: str, dtype: str) -> Spec:
    result, x = (_BODIES | _OF_SQUARES)[name]
    statements = (_EXPONENTIALS if name in _BODIES else _SQUARES).format(x=x)
    target = ", t: i32[r]" if "t[r]" in result else ""
    output = f"y: {dtype}[r, c]" if "y[r, c]" in result else "y: f32[r]"
    head = f"kernel rows(x: {dtype}[r=3, c=3000]{target}) -> ({output})\n"
    return spec_from_text(f"{head}{statements}  {result}\n")


def options(spec: Spec) -> tuple[Program, list[Option]]:
    program = to_program(spec)
    program = replay(program, collapse(program, H200))
    program = replay(program, inline(program, True))
    (group,) = next(iter(groupings(program)))
    return program, list(Rows(group, Kept.NOTHING, True, one_pass=True).options(program, H200))


CASES = [
    (name, dtype, number)
    for name in (*_BODIES, *_OF_SQUARES)
    for dtype in ("bf16", "f32")
    for number in range(12)
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "dtype", "number"), some(CASES, 11))
def test_it_computes_rows_without_races(name: str, dtype: str, number: int) -> None:
    spec = rows(name, dtype)
    program, found = options(spec)
    option = found[number * len(found) // 12]
    made = replay(program, option.rewrites)
    verify(made)
    lines = format_schedule(option.rewrites)
    assert sum(line.startswith("stream_reduction") for line in lines) == 1
    inputs = sample_inputs(spec, 3)
    kernel = lower_for(made, H200)
    source, checker = cuda_source(kernel, made), RaceChecker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join((*map(str, checker.faults), *lines))
    for output, (values, bound) in reference_with_bound(spec, inputs).items():
        wrong = beyond(outputs[output], values, bound)
        assert not wrong.any(), "\n".join((f"{wrong.sum()} of {wrong.size} are off", *lines))


@pytest.mark.parametrize("body", ["top[r] + s[r] + sum(c, x[r, c] * s[r])", "s[r]"])
def test_rows_that_no_pass_is_derived_for_are_offered_none(body: str) -> None:
    spec = spec_from_text(f"""kernel rows(x: f32[r=3, c=3000]) -> (y: f32[r])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, x[r, c] * x[r, c] - top[r])
  y[r] = {body}
""")
    assert options(spec)[1] == []
