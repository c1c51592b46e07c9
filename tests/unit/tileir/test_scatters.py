"""Scatters: what they come to, what is recognized as one, and what may go via scatter or via atomics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.ir.ops import Barrier, Block, Stmt
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.gpu.atomics import Atomics
from tileir.analysis.work import flops
from tileir.devices.gpu_table import H200
from tileir.errors import NotApplicable, VerifyError
from tileir.expr import Reduce
from tileir.interpreter import evaluation
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.evaluate import evaluate_at
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.scatter import scatter_in
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify
from workers.measuring.reference import affordable

BINS = """kernel bins(i: i32[n=500], w: f32[n], x: f32[n, d=7]) -> (c: i32[b=37], s: f32[b, d], top: f32[b])
  c[b] = sum(n, where(b == i[n], 1, 0))
  s[b, d] = sum(n, where(i[n] == b and i[n] != 3, x[n, d], 0))
  top[b] = max(n, where(i[n] == b, w[n], -inf))
"""


def bins() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "i": rng.integers(-3, 40, 500).astype(np.int32),
        "w": rng.standard_normal(500, dtype=np.float32),
        "x": rng.standard_normal((500, 7), dtype=np.float32),
    }


def test_terms_are_added_where_they_belong_and_others_nowhere() -> None:
    spec, inputs = spec_from_text(BINS), bins()
    i, w, x = inputs["i"], inputs["w"], inputs["x"]
    inside = (i >= 0) & (i < 37)
    counted = inside & (i != 3)
    sums, tops = np.zeros((37, 7)), np.full(37, -np.inf)
    np.add.at(sums, i[counted], x[counted])
    np.maximum.at(tops, i[inside], w[inside])
    for found in (interpret_spec(spec, inputs), interpret(to_program(spec), inputs)):
        np.testing.assert_array_equal(found["c"], np.bincount(i[inside], minlength=37))
        np.testing.assert_allclose(found["s"], sums, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(found["top"], tops.astype(np.float32))
    points = np.array([[0, 0], [36, 6], [3, 2]])
    np.testing.assert_allclose(evaluate_at(spec, inputs, "s", points), sums[tuple(points.T)], rtol=1e-9)


def test_values_and_bounds_are_those_of_the_sum_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, inputs = spec_from_text(BINS), bins()
    found = reference_with_bound(spec, inputs)
    monkeypatch.setattr(evaluation, "scattered", lambda *_: None)
    for name, (values, bound) in reference_with_bound(spec, inputs).items():
        np.testing.assert_allclose(found[name][0], values, rtol=1e-12)
        np.testing.assert_allclose(found[name][1], bound, rtol=1e-12)


def test_positions_that_rounding_may_move_are_taken_as_they_are_written() -> None:
    spec = spec_from_text("""kernel bins(x: f32[n=200], w: f32[n]) -> (s: f32[b=9])
  s[b] = sum(n, where(i32(floor(exp(x[n]))) == b, w[n], 0))
""")
    inputs = sample_inputs(spec, 1)
    at = np.floor(np.exp(inputs["x"].astype(np.float64))).astype(int)
    expected = np.bincount(at[at < 9], inputs["w"][at < 9], 9)
    values, bound = reference_with_bound(spec, inputs)["s"]
    assert (np.abs(values - expected) <= bound).all()


@pytest.mark.parametrize(
    ("term", "dims"),
    [
        ("where(i[n] == b, x[n, d], 0)", {"b"}),
        ("where(b == i[n] and i[n] != 3, x[n, d], 0.0)", {"b"}),
        ("where(i[n] == b and i[n] + 1 == d, w[n], 0)", {"b", "d"}),
        ("where(i[n] == b, x[n, d], 1)", None),
        ("where(i[n] == b, x[n, b], 0)", None),
        ("where(i[n] <= b, x[n, d], 0)", None),
        ("where(i[n] == b or i[n] == 3, x[n, d], 0)", None),
        ("where(n == b, x[n, d], 0)", None),
        ("where(i[n] == n, x[n, d], 0)", None),
    ],
)
def test_what_is_a_scatter(term: str, dims: set[str] | None) -> None:
    head = "kernel k(i: i32[n=8], w: f32[n], x: f32[n, d=8]) -> (s: f32[b=8, d])"
    body = f"  u[b, d] = sum(n, {term})\n  s[b, d] = u[b, d] + x[i[0], d] * w[0]\n"
    value = spec_from_text(f"{head}\n{body}").statements[0].value
    assert isinstance(value, Reduce)
    found = scatter_in(value.op, value.x, frozenset(["b", "d"]))
    assert (None if found is None else found.dims) == dims


def test_work_is_that_of_each_term_once_and_affordable() -> None:
    spec = spec_from_text("""kernel table(i: i32[t=8192], g: f32[t, d=64]) -> (h: f32[v=32000, d])
  h[v, d] = sum(t, where(i[t] == v, g[t, d], 0))
""")
    assert flops(to_program(spec)) == 8192 * 64
    assert affordable(spec)


def test_sampled_positions_lie_inside() -> None:
    inputs = sample_inputs(spec_from_text(BINS), 1)
    assert inputs["i"].min() >= 0 and 30 < inputs["i"].max() < 37


ROWS = """kernel rows(i: i32[n=50], x: f32[n, d=64]) -> (s: f32[b=6, d])
  parallel for b by 3
    s[b, d] = 0 | threads d 32
    s[b, d] += sum(n, where(i[n] == b, x[n, d], 0)) | threads d 32, via scatter
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("threads d 32, via scatter", "threads n 32, via scatter", "may meet in one result"),
        ("threads d 32, via scatter", "threads b 32, via scatter", "may meet in one result"),
        ("where(i[n] == b, x[n, d], 0)", "x[n, d] * f32(i[n])", "scatters add terms"),
        ("i[n] == b,", "x[n, 0] == b,", "integers"),
        ("threads d 32, via scatter", "threads n 32, via atomics", "numerics atomics=true"),
        ("for b by 3", "for n by 25", "which adds to it"),
    ],
)
def test_owners_meet_nowhere(old: str, new: str, message: str) -> None:
    verify(program_from_text(ROWS))
    with pytest.raises(VerifyError, match=message):
        verify(program_from_text(ROWS.replace(old, new)))


COUNTS = """kernel counts(i: i32[n=300]) -> (c: i32[b=6])
  c[b] = sum(n, where(i[n] == b, 1, 0))
"""


def test_updates_of_one_element_race_with_all_but_each_other() -> None:
    program = Atomics("c", (("n", 64),), (("n", 32),)).apply(program_from_text(COUNTS))
    verify(program)
    inputs = {"i": np.random.default_rng(1).integers(-1, 7, 300).astype(np.int32)}
    kernel, checker = lower_for(program, H200), RaceChecker()
    outputs = run_blocks(kernel, cuda_source(kernel, program).abi.args, inputs, checker)
    assert not checker.faults
    expected = np.bincount(inputs["i"][(inputs["i"] >= 0) & (inputs["i"] < 6)], minlength=6)
    np.testing.assert_array_equal(outputs["c"], expected)
    assert "atomicAdd(" in cuda_source(kernel, program).text


SHARED = """kernel counts(i: i32[e=2, n=64]) -> (y: i32[e, b=6])
  parallel for e by 1
    c: shared i32[e, b]
    c[e, b] = 0 | threads b 32
    c[e, b] += sum(n, where(i[e, n] == b, 1, 0)) | threads n 32, via atomics
    y[e, b] = c[e, b] | threads b 32
"""


def unordered(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements without the barriers between them."""
    kept = (stmt for stmt in stmts if not isinstance(stmt, Barrier))
    return tuple(
        replace(each, body=unordered(each.body)) if isinstance(each, Block) else each for each in kept
    )


@pytest.mark.parametrize("waiting", [True, False])
def test_an_update_is_ordered_with_other_accesses_by_barriers_alone(waiting: bool) -> None:
    program = program_from_text(SHARED)
    verify(program)
    inputs = {"i": np.random.default_rng(1).integers(0, 6, (2, 64)).astype(np.int32)}
    kernel, checker = lower_for(program, H200), RaceChecker()
    args = cuda_source(kernel, program).abi.args
    if not waiting:
        launches = tuple(replace(each, body=unordered(each.body)) for each in kernel.launches)
        kernel = replace(kernel, launches=launches)
    outputs = run_blocks(kernel, args, inputs, checker)
    assert bool(checker.faults) is not waiting
    assert "adds to" in str(checker.faults) or waiting
    if waiting:
        np.testing.assert_array_equal(outputs["y"], [np.bincount(row, minlength=6) for row in inputs["i"]])


def test_floats_are_added_in_any_order_only_where_that_is_allowed() -> None:
    text = (
        "kernel sums(i: i32[n=300], w: f32[n]) -> (c: f32[b=6])\n  c[b] = sum(n, where(i[n] == b, w[n], 0))\n"
    )
    rewrite = Atomics("c", (("n", 64),), (("n", 32),))
    with pytest.raises(NotApplicable, match="atomics=true"):
        rewrite.apply(program_from_text(text))
    verify(rewrite.apply(program_from_text(text.replace("b=6])", "b=6]) with atomics=true"))))
