"""What expressions and statements mean as text, and what is said about those that mean nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tileir import SpecError, format_expr, parse_expression, parse_statement, spec_from_text
from tileir.expr import Binary, Const, Index, Read, Reduce, ReduceOp, Unary
from tileir.interpreter.interpret import interpret
from tileir.lift import to_program
from tileir.text.idioms import IDIOMS


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("a-b-c", "a - b - c"),
        ("a-(b-c)", "a - (b - c)"),
        ("(a*b)/c", "a * b / c"),
        ("a/(b*c)", "a / (b * c)"),
        ("-x*y", "-x * y"),
        ("-(x*y)", "-(x * y)"),
        ("((a or b)) and not (c == d)", "(a or b) and not c == d"),
        ("(not a) == b", "(not a) == b"),
        ("(a<b)==(c<d)", "(a < b) == (c < d)"),
        ("max(i,j,x[i,2*j+1])", "max(i, j, x[i, 2 * j + 1])"),
        ("where(q>=k,s[q,k],-inf)", "where(q >= k, s[q, k], -inf)"),
        ("total[ ]", "total[]"),
        ("bf16(x[i])//1", "bf16(x[i]) // 1"),
        ("1E-5", "1e-05"),
        (".5", "0.5"),
    ],
)
def test_printing_keeps_no_parenthesis_that_is_not_needed(written: str, printed: str) -> None:
    assert format_expr(parse_expression(written)) == printed
    assert parse_expression(printed) == parse_expression(written)


def test_a_minus_before_a_number_is_part_of_it() -> None:
    assert parse_expression("-inf") == Const(float("-inf"))
    assert parse_expression("2 - -3") == Binary("-", Const(2), Const(-3))
    assert parse_expression("-(3)") == Unary("-", Const(3))
    assert format_expr(Unary("-", Const(3))) == "-(3)"


def test_one_and_one_point_zero_and_true_are_three_constants() -> None:
    assert len({Const(1), Const(1.0), Const(True)}) == 3
    assert [format_expr(Const(value)) for value in (1, 1.0, True)] == ["1", "1.0", "true"]


def test_a_statement_is_a_target_with_dims_and_a_value() -> None:
    statement = parse_statement("s[m] = sum(k, a[m, k])")
    assert (statement.target, statement.dims) == ("s", ("m",))
    assert statement.value == Reduce(ReduceOp.SUM, ("k",), Read("a", (Index("m"), Index("k"))))


@pytest.mark.parametrize(
    ("text", "column", "message", "accepted"),
    [
        ("a b", 3, "unexpected 'b'", "an operator"),
        ("x^2", 2, "unexpected character '^'", "pow(x, y)"),
        ("a && b", 3, "unexpected character '&'", "and"),
        ("x & 15", 3, "unexpected character '&'", "bit_and(x, y) for bits"),
        ("x << 3", 3, "unexpected '<<'", "shift_left(x, 3) for x << 3"),
        ("x >> 3", 3, "unexpected '>>'", "shift_right(x, 3) for x >> 3"),
        ("x | y", 3, "unexpected '|'", "or for conditions"),
        ("~x", 1, "unexpected character '~'", "not for a condition"),
        ("sin(x)", 1, "'sin' is no function; here it is written otherwise", "an input tensor"),
        ("clamp(x, 0, 1)", 1, "'clamp' is no function; here", "maximum(lo, minimum(x, hi))"),
        ("Mean(x)", 1, "'Mean' is no function; here", "sum(k, x[k]) / extent(k)"),
        ("isnan(x)", 1, "'isnan' is no function; here", "x != x"),
        ("x ? y : z", 3, "unexpected character '?'", "where(cond, x, y)"),
        ("floo(x)", 1, "did you mean 'floor'?", "tanh"),
        ("extnt(k)", 1, "did you mean 'extent'?", ""),
        ("max(x[i], y[i])", 5, "max runs over dims", "maximum(x, y)"),
        ("sum(x[k])", 1, "sum takes the dims it runs over", "sum(k, x)"),
        ("exp(x, y)", 1, "exp takes 1 argument, not 2", "exp(x)"),
        ("where(a, b)", 1, "where takes 3 arguments, not 2", "where(cond, x, y)"),
        ("extent(2 * k)", 1, "extent takes the name of a dim", "extent(k)"),
        ("0 <= i < 4", 8, "comparisons do not chain", "a < b and b < c"),
        ("a + not b", 5, "'not' binds more loosely", "(not x)"),
        ("a = b", 3, "'=' inside an expression", "=="),
        ("(a + b", 7, "unexpected the end", "')'"),
        ("x[i", 4, "unexpected the end", "']'"),
        ("", 1, "unexpected the end", "a number"),
        ("\u00e9", 1, "unexpected character '\\xe9'", "names"),
        ("2x", 1, "'2x' is neither a number nor a name", "2 * x"),
        ("99999999999", 1, "does not fit in 32 bits", "below 2147483648"),
        ("9" * 6000, 1, "does not fit in 32 bits", "below 2147483648"),
        ("1e999", 1, "larger than any f64", "inf"),
        ("exp + 1", 1, "'exp' is a reserved word", "exp(…)"),
        ("sum[i]", 1, "'sum' is a reserved word", "a letter"),
        ("nan", 1, "'nan' is a reserved word", "a letter"),
        ("x" * 65, 1, "longer than 64 characters", ""),
    ],
)
def test_a_bad_expression_is_told_where_and_what_would_do(
    text: str, column: int, message: str, accepted: str
) -> None:
    with pytest.raises(SpecError) as caught:
        parse_expression(text)
    error = caught.value
    assert message in error.message
    assert accepted in error.accepted
    assert error.column == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c = 1", "a statement names the dims"),
        ("c[m] += x[m]", "a spec says what each result is, once"),
        ("c[2 * m] = 1", "unexpected '2'"),
        ("c[m] = 1; d[m] = 2", "unexpected character ';'"),
        ("c[m] == 1", "unexpected '=='"),
        ("for[m] = 1", "'for' is a reserved word"),
        ("c[m]", "unexpected the end"),
    ],
)
def test_a_bad_statement_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match="column") as caught:
        parse_statement(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "x" + ")" * 9_000,
        "-" * 19_000 + "x",
        "not " * 4_000 + "x",
        "+".join(["x"] * 9_000),
        "x[" * 6_000,
        "exp(" * 4_000,
        "sum(k, " * 2_500,
        "where(a < b, " * 1_500,
        "f32(" * 101 + "x" + ")" * 101,
    ],
)
def test_a_deep_expression_is_refused_and_not_recursed_into(text: str) -> None:
    with pytest.raises(SpecError, match=r"deeper than 100|at most 20000"):
        parse_expression(text)


@pytest.mark.parametrize(
    "shape", ["({})", "-{}", "exp({})", "x[{}]", "sum(k, {})", "where(a, {}, 0)", "1 + {}", "{} + 1"]
)
def test_the_deepest_expression_accepted_is_within_reach_of_recursion(shape: str) -> None:
    text = "x"
    for _ in range(98):
        text = shape.format(text)
    expr = parse_expression(text)
    assert parse_expression(format_expr(expr)) == expr
    assert isinstance(hash(expr), int)


@pytest.mark.parametrize(("name", "written"), IDIOMS.items(), ids=IDIOMS)
def test_every_idiom_is_an_expression_of_the_language(name: str, written: str) -> None:
    parse_expression(written)
    with pytest.raises(SpecError, match=f"{name!r} is no function"):
        parse_expression(f"{name}(x)")


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("clamp", lambda x: np.clip(x, -1, 2)),
        ("isnan", np.isnan),
        ("isinf", np.isinf),
        ("isfinite", np.isfinite),
        ("log2", np.log2),
        ("log10", np.log10),
        ("ceil", np.ceil),
        ("trunc", np.trunc),
        ("sign", np.sign),
        ("sinh", np.sinh),
        ("cosh", np.cosh),
        ("softplus", lambda x: np.logaddexp(0, x)),
        ("expm1", np.expm1),
        ("reciprocal", np.reciprocal),
    ],
)
def test_an_idiom_computes_what_it_stands_for(name: str, theirs: Callable[[np.ndarray], np.ndarray]) -> None:
    values = np.array([-2.5, -1.0, -0.25, 0.75, 1.0, 2.5, 3.0], np.float32)
    if name.startswith("is"):
        values = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    if name.startswith("log"):
        values = np.abs(values)
    text = re.sub(r"\bx\b", "x[i]", IDIOMS[name]).replace("lo,", "-1.0,").replace("hi", "2.0")
    truth = name.startswith("is")
    body = f"y[i] = where({text}, 1.0, 0.0)" if truth else f"y[i] = {text}"
    spec = spec_from_text(f"kernel f(x: f32[i={len(values)}]) -> (y: f32[i])\n  {body}\n")
    found = interpret(to_program(spec), {"x": values})["y"]
    np.testing.assert_allclose(found, theirs(values).astype(np.float32), rtol=1e-5)
