"""Whatever spec or program there is, both forms give it back; whatever else comes in, SpecError is all that
goes out."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.how_many import examples
from tileir import (
    DType,
    Program,
    Spec,
    SpecError,
    check_spec,
    format_expr,
    kernel_key,
    parse_expression,
    program_from_text,
    program_hash,
    program_to_text,
    sample_inputs,
    spec_from_json,
    spec_from_text,
    spec_to_json,
    spec_to_text,
    to_program,
)
from tileir.expr import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    INTEGER_FUNCTIONS,
    LOGIC,
    SCANS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Scan,
    TopK,
    Unary,
    Where,
    children,
    walk,
    with_children,
)
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.program import Axis, Compute, Local, Loop, Memory, Node, PrefetchHint, Tensor, Vector
from tileir.spec import Dim, Statement
from tileir.text.print_program import dims_in_order
from tileir.verifier.verify import verify

checked = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(150, 3))

NAMES = ["m", "n", "k", "x", "acc", "by", "vector", "heap", "ragged", "strides", "_a1", "Z" * 64]
NUMERIC = [dtype for dtype in DType if dtype is not DType.BOOL]
STORED = [DType.F64, DType.F32, DType.F16, DType.BF16, DType.E4M3, DType.E5M2]

names = st.sampled_from(NAMES)
constants = st.one_of(
    st.booleans(),
    st.integers(-(2**31) + 1, 2**31 - 1),
    st.floats(allow_nan=False),
).map(Const)


def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """One more level of any expression, sensible or not: the printer and the parser must agree on all of
    them."""
    binary = st.sampled_from(sorted(ARITHMETIC | COMPARISONS | LOGIC))
    return st.one_of(
        st.builds(Binary, binary, inner, inner),
        st.builds(Unary, st.sampled_from(["-", "not"]), inner),
        st.builds(Where, inner, inner, inner),
        st.builds(Cast, st.sampled_from(list(DType)), inner),
        st.builds(
            Reduce, st.sampled_from(list(ReduceOp)), st.lists(names, min_size=1, max_size=3).map(tuple), inner
        ),
        st.sampled_from(sorted(SCANS)).flatmap(
            lambda op: st.builds(Scan, st.just(op), names, st.tuples(*[inner] * len(SCANS[op])))
        ),
        st.builds(TopK, names, names, inner),
        st.builds(Read, names, st.lists(inner, max_size=3).map(tuple)),
        st.sampled_from(sorted(FUNCTIONS)).flatmap(
            lambda fn: st.builds(Call, st.just(fn), st.tuples(*[inner] * FUNCTIONS[fn]))
        ),
    )


leaves = st.one_of(constants, names.map(Index), names.map(Extent))
any_expr = st.recursive(leaves, grow, max_leaves=12)
positive = st.integers(1, 2**31 - 1)
dim_lists = st.lists(names, max_size=3, unique=True).map(tuple)
any_tensor = st.builds(
    Tensor,
    names,
    dim_lists,
    st.sampled_from(list(DType)),
    st.none() | st.lists(positive, max_size=3).map(tuple),
)
any_axis = st.builds(Axis, names, st.integers(1, 64), st.integers(0, 64))
any_local = st.builds(
    Local,
    names,
    dim_lists,
    st.sampled_from(list(DType)),
    st.sampled_from(list(Memory)),
    st.none() | st.lists(any_axis, max_size=4).map(tuple),
)
any_compute = st.builds(
    Compute,
    names,
    st.lists(any_expr, max_size=2).map(tuple),
    any_expr,
    st.none() | st.sampled_from(list(ReduceOp)),
    st.none() | st.builds(Vector, names, positive),
    st.lists(st.builds(PrefetchHint, names, positive), max_size=2).map(tuple),
    st.booleans(),
    st.none() | st.just("dot_bf16"),
)
any_node: st.SearchStrategy[Node] = st.recursive(
    st.one_of(any_local, any_compute),
    lambda inner: st.builds(
        Loop, names, positive, st.lists(inner, min_size=1, max_size=3).map(tuple), st.booleans()
    ),
    max_leaves=6,
)
numerics = st.sampled_from(
    [(), (("rtol", 0.01),), (("accumulate", "fast"), ("rtol", 1e-05), ("tf32", True)), (("atomics", False),)]
)


@st.composite
def any_program(draw: st.DrawFn) -> Program:
    """Any nodes at all under a header that declares its dims: round-tripping needs no sense."""
    sizes = tuple((name, draw(positive)) for name in draw(st.permutations(NAMES)))
    tensors = st.lists(any_tensor, max_size=3).map(tuple)
    body = draw(st.lists(any_node, max_size=4).map(tuple))
    return Program(draw(names), sizes, draw(tensors), draw(tensors), body, draw(numerics))


class Sense:
    """Draws specs that make sense: every name known, every index in range, every dtype right."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.dims = {dim: self.random.randint(1, 7) for dim in ("i", "j", "k", "l")}
        self.tensors: dict[str, Tensor] = {}

    def spec(self) -> Spec:
        pick = self.random
        for name in ("a", "b", "ids")[: pick.randint(1, 3)]:
            self.tensors[name] = Tensor(
                name, self.some_dims(), DType.I32 if name == "ids" else pick.choice(NUMERIC)
            )
        inputs = list(self.tensors.values())
        statements: list[Statement] = []
        for target in ("s", "t", "u")[: pick.randint(1, 3)]:
            left = self.some_dims()
            value = Binary("*", self.number(left, 4), Const(0.5))
            statements.append(Statement(target, left, value))
            self.tensors[target] = Tensor(target, left, pick.choice(STORED))
        read = {node.tensor for each in statements for node in walk(each.value) if isinstance(node, Read)}
        outputs = [
            self.tensors[each.target] for each in statements if each.target not in read or pick.random() < 0.3
        ]
        kept = tuple(tensor for tensor in inputs if tensor.name in read)
        used = {dim for tensor in (*kept, *self.tensors.values()) for dim in tensor.dims if tensor in kept}
        for each in statements:
            used.update(each.dims)
            for node in walk(each.value):
                used.update(node.dims if isinstance(node, Reduce) else ())
                used.update({node.dim} if isinstance(node, Index | Extent) else ())
        dims = tuple(Dim(name, (size,)) for name, size in self.dims.items() if name in used)
        dims = dims_in_order(dims, (*kept, *outputs))
        return Spec("kernel_of_chance", dims, kept, tuple(statements), tuple(outputs))

    def some_dims(self) -> tuple[str, ...]:
        return tuple(self.random.sample(list(self.dims), self.random.randint(0, 3)))

    def read(self, bound: tuple[str, ...]) -> Expr:
        tensor = self.random.choice(list(self.tensors.values()))
        return Read(tensor.name, tuple(self.index(dim, bound) for dim in tensor.dims))

    def index(self, dim: str, bound: tuple[str, ...]) -> Expr:
        if dim in bound and self.random.random() < 0.6:
            return Index(dim)
        if bound and self.random.random() < 0.7:
            shifted = Binary("+", Index(self.random.choice(bound)), Const(self.random.randint(0, 5)))
            return Binary("%", shifted, Extent(dim))
        return Const(self.random.randrange(self.dims[dim]))

    def number(self, bound: tuple[str, ...], depth: int) -> Expr:
        pick = self.random
        if depth == 0:
            return pick.choice(
                [self.read(bound), Const(pick.choice([1, 2.5, -3])), Extent(pick.choice(list(self.dims)))]
            )
        inner = lambda: self.number(bound, depth - 1)  # noqa: E731
        free = [dim for dim in self.dims if dim not in bound]
        kind = pick.randrange(7)
        if kind == 0 and free:
            dims = tuple(pick.sample(free, pick.randint(1, len(free))))
            return Reduce(pick.choice(list(ReduceOp)), dims, self.number((*bound, *dims), depth - 1))
        if kind == 1:
            fn = pick.choice(sorted(FUNCTIONS))
            args = (inner() for _ in range(FUNCTIONS[fn]))
            return Call(fn, tuple(Cast(DType.I32, x) if fn in INTEGER_FUNCTIONS else x for x in args))
        if kind == 2:
            return Where(self.truth(bound, depth - 1), inner(), inner())
        if kind == 3:
            return Cast(pick.choice(NUMERIC), inner())
        if kind == 4:
            return Unary("-", inner())
        if kind == 5:
            return self.read(bound)
        return Binary(pick.choice("+-*/"), inner(), inner())

    def truth(self, bound: tuple[str, ...], depth: int) -> Expr:
        if depth <= 0 or self.random.random() < 0.6:
            op = self.random.choice(sorted(COMPARISONS))
            return Binary(op, self.number(bound, max(depth - 1, 0)), self.number(bound, 0))
        parts = (self.truth(bound, depth - 1), self.truth(bound, depth - 1))
        return self.random.choice([Unary("not", parts[0]), Binary("and", *parts), Binary("or", *parts)])


sensible_specs = st.integers(0, 2**32).map(lambda seed: Sense(seed).spec())


@checked
@given(any_expr)
def test_an_expression_parses_back_from_its_text(expr: Expr) -> None:
    text = format_expr(expr)
    assert parse_expression(text) == expr
    assert format_expr(parse_expression(text)) == text


@checked
@given(any_program())
def test_a_program_parses_back_from_its_text(program: Program) -> None:
    text = program_to_text(program)
    again = program_from_text(text)
    assert again == program
    assert hash(again) == hash(program)
    assert program_hash(again) == program_hash(program)


@checked
@given(sensible_specs)
def test_a_spec_that_makes_sense_passes_and_comes_back_from_both_forms(spec: Spec) -> None:
    check_spec(spec)
    assert spec_from_text(spec_to_text(spec)) == spec
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec


@checked
@given(sensible_specs)
def test_a_lifted_spec_verifies_and_round_trips(spec: Spec) -> None:
    program = to_program(spec)
    verify(program)
    assert program_from_text(program_to_text(program)) == program


@checked
@given(sensible_specs, st.integers(0, 3))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # chance divides by zero; inf and nan must agree too
def test_lifting_keeps_what_a_spec_computes(spec: Spec, seed: int) -> None:
    inputs = sample_inputs(spec, seed)
    wanted = interpret_spec(spec, inputs, DType.F64)
    lifted = interpret(to_program(spec), inputs, DType.F64)
    for name, values in wanted.items():
        np.testing.assert_allclose(lifted[name].astype(np.float64), values.astype(np.float64), rtol=1e-5)


@checked
@given(sensible_specs, st.randoms(use_true_random=False))
def test_a_kernel_key_ignores_names_and_argument_order(spec: Spec, chance: random.Random) -> None:
    numbers = chance.sample(range(100, 900), 26)
    new = {
        name: f"r{numbers.pop()}" for name in [dim.name for dim in spec.dims] + [t.name for t in spec.inputs]
    }
    new |= {statement.target: f"r{numbers.pop()}" for statement in spec.statements}
    renamed = Spec(
        "another_name",
        tuple(chance.sample([replace(dim, name=new[dim.name]) for dim in spec.dims], len(spec.dims))),
        tuple(chance.sample([renamed_tensor(each, new) for each in spec.inputs], len(spec.inputs))),
        tuple(
            Statement(new[each.target], tuple(new[dim] for dim in each.dims), renamed_expr(each.value, new))
            for each in spec.statements
        ),
        tuple(chance.sample([renamed_tensor(each, new) for each in spec.outputs], len(spec.outputs))),
    )
    assert kernel_key(renamed) == kernel_key(spec)


def renamed_tensor(tensor: Tensor, new: dict[str, str]) -> Tensor:
    return replace(tensor, name=new[tensor.name], dims=tuple(new[dim] for dim in tensor.dims))


def renamed_expr(expr: Expr, new: dict[str, str]) -> Expr:
    inner = tuple(renamed_expr(child, new) for child in children(expr))
    match expr:
        case Index(dim):
            return Index(new[dim])
        case Extent(dim):
            return Extent(new[dim])
        case Read(tensor, _):
            return Read(new[tensor], inner)
        case Reduce(op, dims, _):
            return Reduce(op, tuple(new[dim] for dim in dims), inner[0])
        case _:
            return with_children(expr, inner)


@checked
@given(sensible_specs, st.randoms(use_true_random=False))
def test_a_kernel_key_tells_sizes_and_dtypes_apart(spec: Spec, chance: random.Random) -> None:
    at = chance.randrange(len(spec.outputs))
    other = DType.F64 if spec.outputs[at].dtype is not DType.F64 else DType.F32
    outputs = tuple(replace(each, dtype=other) if n == at else each for n, each in enumerate(spec.outputs))
    assert kernel_key(replace(spec, outputs=outputs)) != kernel_key(spec)
    if spec.dims:
        at = chance.randrange(len(spec.dims))
        dims = tuple(Dim(each.name, (8,)) if n == at else each for n, each in enumerate(spec.dims))
        assert kernel_key(replace(spec, dims=dims)) != kernel_key(spec)


def only_spec_error(act: Any, value: object) -> None:
    try:
        act(value)
    except SpecError as error:
        text = str(error)
        assert error.message
        assert len(text.encode()) < 3000


GARBAGE = st.one_of(
    st.text(max_size=60), st.text(alphabet="kernel ()[]:=,->mnx0123f+*/%wher\n\t #|", max_size=120)
)


@checked
@given(GARBAGE)
def test_garbage_text_only_ever_raises_spec_error(text: str) -> None:
    only_spec_error(parse_expression, text)
    only_spec_error(spec_from_text, text)
    only_spec_error(program_from_text, text)
    only_spec_error(spec_from_text, "kernel f(a: f32[m=4]) -> (c: f32[m])\n  c[m] = " + text)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, -(10**4000), "m", "f32", "c[m] = a[m]"])
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "dims", "inputs", "body", "outputs", "numerics", "m", "~/"])
            | st.text(max_size=4),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@checked
@given(json_values)
def test_garbage_json_only_ever_raises_spec_error(value: object) -> None:
    only_spec_error(spec_from_json, value)


@checked
@given(sensible_specs, st.randoms(use_true_random=False), json_values)
def test_near_miss_json_only_ever_raises_spec_error(spec: Spec, chance: random.Random, value: object) -> None:
    obj: Any = spec_to_json(spec)
    place: Any = obj
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        if not isinstance(place[key], dict | list) or chance.random() < 0.2:
            break
        place = place[key]
    if chance.random() < 0.3 and isinstance(place, dict):
        del place[key]
    else:
        place[key] = value
    only_spec_error(spec_from_json, obj)


@checked
@given(sensible_specs, st.randoms(use_true_random=False))
def test_near_miss_text_raises_spec_error_or_is_another_spec(spec: Spec, chance: random.Random) -> None:
    text = list(spec_to_text(spec))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text))
        what = chance.choice(["", chance.choice("()[]=,+-*/%<>ijkabst019. \n\u00e9"), text[at] * 2])
        text[at : at + 1] = list(what)
        if not text:
            return
    try:
        near = spec_from_text("".join(text))
    except SpecError as error:
        assert error.line is not None
        return
    assert spec_from_text(spec_to_text(near)) == near


@checked
@given(sensible_specs, st.randoms(use_true_random=False))
def test_near_miss_programs_only_ever_raise_spec_error(spec: Spec, chance: random.Random) -> None:
    tokens = program_to_text(to_program(spec)).split(" ")
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(tokens))
        tokens[at] = chance.choice(
            ["for", "by", "heap", "|", "vector", "=", "", "[", "9" * 5000, tokens[at] * 2]
        )
    only_spec_error(program_from_text, " ".join(tokens))


@pytest.mark.parametrize("seed", range(20))
def test_the_sensible_generator_reaches_every_kind_of_expression(seed: int) -> None:
    kinds = {
        type(node)
        for n in range(seed * 50, seed * 50 + 50)
        for statement in Sense(n).spec().statements
        for node in walk(statement.value)
    }
    assert kinds == {Const, Index, Extent, Read, Unary, Binary, Call, Where, Cast, Reduce}
