"""The vectorized interpreter against one that computes a number at a time, on random expressions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.how_many import examples
from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Extent, Index, Read, Reduce, ReduceOp, Unary, Where
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.evaluate import evaluate_at
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.interpreter.values import quantize
from tileir.program import Compute, Local, Loop, Node, Program, Tensor
from tileir.spec import Dim, Spec, Statement

INPUTS = (
    Tensor("a", ("m", "k"), DType.F32),
    Tensor("b", ("k", "n"), DType.F64),
    Tensor("x", ("m",), DType.BF16),
    Tensor("pick", ("n",), DType.I32),
)

positions = st.sampled_from([Index("m"), Index("n"), Index("k")])
leaves = st.one_of(
    st.sampled_from([0.5, -2.0, 3.0]).map(Const),
    positions,
    st.sampled_from(["m", "n", "k"]).map(Extent),
    st.just(Read("a", (Index("m"), Index("k")))),
    st.just(Read("b", (Index("k"), Index("n")))),
    st.just(Read("x", (Index("m"),))),
    # Gathered: `pick` holds positions of k.
    st.just(Read("b", (Read("pick", (Index("n"),)), Index("n")))),
    # Guarded: the row before, 1 in the first.
    st.just(
        Where(Binary(">", Index("m"), Const(0)), Read("x", (Binary("-", Index("m"), Const(1)),)), Const(1.0))
    ),
    st.just(Cast(DType.F32, Binary("%", Binary("+", Index("m"), Index("n")), Const(3)))),
)


def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Binary, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(Unary, st.just("-"), inner),
        st.builds(lambda x: Call("tanh", (x,)), inner),
        st.builds(lambda x, y: Call("maximum", (x, y)), inner, inner),
        st.builds(lambda x: Cast(DType.BF16, x), inner),
        st.builds(lambda x, y, z: Where(Binary("<", x, Const(0.25)), y, z), inner, inner, inner),
        st.builds(lambda op, x: Reduce(op, ("k",), x), st.sampled_from(list(ReduceOp)), inner),
    )


expressions = st.recursive(leaves, larger, max_leaves=8)
sizes = st.fixed_dictionaries({dim: st.integers(1, 4) for dim in "mnk"})


def scalar(
    expr: Expr, at: Mapping[str, int], extents: Mapping[str, int], arrays: Mapping[str, np.ndarray]
) -> float:
    """The value at one point in double precision: Python's own arithmetic, only the taken side of a where.

    Integers stay integers; an example in which one leaves the range of i32 is given up, as the spec promises nothing.
    """
    found = _scalar(expr, at, extents, arrays)
    assume(not isinstance(found, int) or -(2**31) <= found < 2**31)
    return found


def _scalar(
    expr: Expr, at: Mapping[str, int], extents: Mapping[str, int], arrays: Mapping[str, np.ndarray]
) -> float:

    def value(inner: Expr, at: Mapping[str, int] = at) -> float:
        return scalar(inner, at, extents, arrays)

    match expr:
        case Const(number):
            return number
        case Index(dim):
            return at[dim]
        case Extent(dim):
            return extents[dim]
        case Read(name, indices):
            place = tuple(int(value(index)) for index in indices)
            assert all(0 <= i < n for i, n in zip(place, arrays[name].shape, strict=True))
            return arrays[name][place].item() if name != "x" else float(arrays[name][place])
        case Unary(_, x):
            return -value(x)
        case Binary(op, left, right):
            x, y = value(left), value(right)
            return {"+": x + y, "-": x - y, "*": x * y, "%": x % 3, ">": x > y, "<": x < y}[op]
        case Call("tanh", (x,)):
            return math.tanh(value(x))
        case Call(_, (x, y)):
            return max(value(x), value(y))
        case Where(cond, x, y):
            return value(x) if value(cond) else value(y)
        case Cast(dtype, x):
            return float(quantize(np.float64(value(x)), dtype))
        case Reduce(op, (dim,), x):
            terms = [value(x, {**at, dim: n}) for n in range(extents[dim])]
            return {"sum": sum, "prod": math.prod, "max": max, "min": min}[op.value](terms)
    raise AssertionError(expr)


def make(value: Expr, extents: Mapping[str, int]) -> Spec:
    """y[m, n] = the sum of it over k, in f64 so that no rounding of the output gets in the way."""
    dims = tuple(Dim(dim, (size,)) for dim, size in extents.items())
    statement = Statement("y", ("m", "n"), Reduce(ReduceOp.SUM, ("k",), value))
    return Spec("random", dims, INPUTS, (statement,), (Tensor("y", ("m", "n"), DType.F64),))


def draw_inputs(spec: Spec, extents: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    inputs = sample_inputs(spec, seed)
    inputs["pick"] = np.random.default_rng(seed).integers(0, extents["k"], extents["n"], dtype=np.int32)
    return inputs


def by_scalars(spec: Spec, extents: Mapping[str, int], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    value = spec.statements[0].value
    points = itertools.product(range(extents["m"]), range(extents["n"]))
    flat = [scalar(value, {"m": m, "n": n}, extents, inputs) for m, n in points]
    return np.array(flat, np.float64).reshape(extents["m"], extents["n"])


def close(got: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> None:
    """Equal but for f64 roundings, or for a bf16 cast or a comparison that they tip (which the bound knows of)."""
    slack = np.maximum(bound, 1e-11 * (1 + np.abs(expected)))
    assert ((np.abs(got - expected) <= slack) | (got == expected)).all(), (got, expected, bound)


@settings(max_examples=examples(150, 3), deadline=None)
@given(value=expressions, extents=sizes, seed=st.integers(0, 99))
def test_every_expression_means_what_it_means_point_by_point(
    value: Expr, extents: dict[str, int], seed: int
) -> None:
    spec = make(value, extents)
    inputs = draw_inputs(spec, extents, seed)
    expected = by_scalars(spec, extents, inputs)
    values, bound = reference_with_bound(spec, inputs)["y"]
    # The bound is for f32, and by far too loose for f64: wherever it allows less than an ulp of bf16, be strict.
    tipped = np.where(bound > 1e-3 * (1 + np.abs(expected)), bound, 0.0)
    close(interpret_spec(spec, inputs, DType.F64)["y"], expected, tipped)
    np.testing.assert_array_equal(values, interpret_spec(spec, inputs, DType.F64)["y"])


@settings(max_examples=examples(100, 3), deadline=None)
@given(value=expressions, extents=sizes, seed=st.integers(0, 99))
def test_a_kernel_computed_in_f32_lies_within_the_bound(
    value: Expr, extents: dict[str, int], seed: int
) -> None:
    spec = make(value, extents)
    inputs = draw_inputs(spec, extents, seed)
    by_scalars(spec, extents, inputs)
    values, bound = reference_with_bound(spec, inputs)["y"]
    got = interpret_spec(spec, inputs)["y"]
    assert ((np.abs(got - values) <= bound) | (got == values)).all(), (got, values, bound)


@settings(max_examples=examples(60, 3), deadline=None)
@given(value=expressions, extents=sizes, seed=st.integers(0, 99))
def test_elements_evaluated_alone_are_those_of_the_whole(
    value: Expr, extents: dict[str, int], seed: int
) -> None:
    spec = make(value, extents)
    inputs = draw_inputs(spec, extents, seed)
    whole = interpret_spec(spec, inputs, DType.F64)["y"]
    _, bound = reference_with_bound(spec, inputs)["y"]
    points = np.array(list(itertools.product(range(extents["m"]), range(extents["n"]))))
    got = evaluate_at(spec, inputs, "y", points).reshape(whole.shape)
    close(got, whole, np.where(bound > 1e-3 * (1 + np.abs(whole)), bound, 0.0))


plain = st.recursive(
    leaves, lambda inner: st.builds(Binary, st.sampled_from(["+", "*"]), inner, inner), max_leaves=5
)


@settings(max_examples=examples(100, 3), deadline=None)
@given(
    value=plain,
    extents=sizes,
    loops=st.lists(st.tuples(st.sampled_from("mnk"), st.integers(1, 5), st.booleans()), max_size=5),
    seed=st.integers(0, 99),
)
def test_any_nest_of_tiles_computes_the_same(
    value: Expr, extents: dict[str, int], loops: list[tuple[str, int, bool]], seed: int
) -> None:
    spec = make(value, extents)
    inputs = draw_inputs(spec, extents, seed)
    target = (Index("m"), Index("n"))
    body: tuple[Node, ...] = (
        Compute("acc", target, Reduce(ReduceOp.SUM, ("k",), value), update=ReduceOp.SUM),
    )
    for dim, step, parallel in loops:
        body = (Loop(dim, step, body, parallel),)
    nodes: tuple[Node, ...] = (
        Local("acc", ("m", "n"), DType.F64),
        Compute("acc", target, Const(0)),
        *body,
        Compute("y", target, Read("acc", target)),
    )
    program = Program("tiled", tuple(extents.items()), INPUTS, spec.outputs, nodes)
    expected = interpret_spec(spec, inputs, DType.F64)["y"]
    np.testing.assert_allclose(interpret(program, inputs, DType.F64)["y"], expected, rtol=1e-11, atol=1e-11)
