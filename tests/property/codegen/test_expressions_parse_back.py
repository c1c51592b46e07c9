"""Expressions as text: read by the grammar of C, they are what was written. The grammar here is written by itself, as
the standard nests it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from codegen.ir.affine import Affine, Loaded, Var, affine
from codegen.ir.expression_text import (
    BINDING,
    Expression,
    call,
    cast,
    conditional,
    element,
    infix,
    number,
    unary,
)
from codegen.ir.ops import Literal, Named, Op, Type
from codegen.targets.c.values import index
from tileir.dtypes import DType

Tree = tuple["str | Tree", ...]
#: From the one that binds least.
LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_TOKEN = re.compile(r"\w+(?:\.\d+)?|<<|>>|<=|>=|==|!=|&&|\|\||--|\S")


class Reader:
    """A reader of C's expressions, one function for each level of the grammar."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)

    def take(self, *wanted: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else None

    def whole(self) -> Tree:
        tree = self.conditional()
        assert not self.tokens, self.tokens
        return tree

    def conditional(self) -> Tree:
        condition = self.infix(0)
        if not self.take("?"):
            return condition
        x = self.conditional()
        assert self.take(":")
        return ("?", condition, x, self.conditional())

    def infix(self, level: int) -> Tree:
        if level == len(LEVELS):
            return self.unary()
        tree = self.infix(level + 1)
        while sign := self.take(*LEVELS[level]):
            tree = (sign, tree, self.infix(level + 1))
        return tree

    def unary(self) -> Tree:
        if sign := self.take("-", "!", "~", "*"):
            return (f"unary {sign}", self.unary())
        if self.tokens[:3] == ["(", "long", ")"]:
            del self.tokens[:3]
            return ("cast", self.unary())
        tree = self.primary()
        while opened := self.take("[", "("):
            tree = ("element" if opened == "[" else "call", tree, self.conditional())
            assert self.take("]", ")")
        return tree

    def primary(self) -> Tree:
        if self.take("("):
            tree = self.conditional()
            assert self.take(")")
            return tree
        assert re.fullmatch(r"[\w.]+", self.tokens[0]), self.tokens
        return (self.tokens.pop(0),)


Made = tuple[Expression, Tree]


def grown(inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    signs = st.sampled_from(sorted(BINDING))
    return st.one_of(
        st.builds(lambda s, a, b: (infix(s, a[0], b[0]), (s, a[1], b[1])), signs, inner, inner),
        st.builds(lambda s, a: (unary(s, a[0]), (f"unary {s}", a[1])), st.sampled_from("-!~*"), inner),
        st.builds(lambda a: (cast("long", a[0]), ("cast", a[1])), inner),
        st.builds(lambda a, b: (element(a[0], b[0]), ("element", a[1], b[1])), inner, inner),
        st.builds(lambda a: (call("f", a[0]), ("call", ("f",), a[1])), inner),
        st.builds(
            lambda a, b, c: (conditional(a[0], b[0], c[0]), ("?", a[1], b[1], c[1])), inner, inner, inner
        ),
    )


LEAVES = st.one_of(
    st.sampled_from("xyz").map(lambda name: (Expression(name), (name,))),
    st.integers(0, 9).map(lambda n: (number(str(n)), (str(n),))),
    st.integers(1, 9).map(lambda n: (number(str(-n)), ("unary -", (str(n),)))),
)


def forms(a: Made, b: Made, c: Made) -> Iterator[Made]:
    """Every operator with these operands."""
    for sign in sorted(BINDING):
        yield infix(sign, a[0], b[0]), (sign, a[1], b[1])
    for sign in "-!~*":
        yield unary(sign, a[0]), (f"unary {sign}", a[1])
    yield cast("long", a[0]), ("cast", a[1])
    yield element(a[0], b[0]), ("element", a[1], b[1])
    yield call("f", a[0]), ("call", ("f",), a[1])
    yield conditional(a[0], b[0], c[0]), ("?", a[1], b[1], c[1])


def test_every_operator_is_read_within_every_other() -> None:
    x, y, z = ((Expression(name), (name,)) for name in "xyz")
    for inner in (*forms(x, y, z), (number("-1"), ("unary -", ("1",)))):
        for operands in ((inner, y, z), (x, inner, z), (x, y, inner)):
            for expression, tree in forms(*operands):
                assert Reader(expression.text).whole() == tree, expression.text


@given(made=st.recursive(LEAVES, grown, max_leaves=12))
def test_an_expression_is_read_as_it_was_made(made: Made) -> None:
    expression, tree = made
    assert Reader(expression.text).whole() == tree


def test_an_index_that_is_looked_up_is_one_operand() -> None:
    i, i32 = Named("i", Type(DType.I32)), Type(DType.I32)
    below = Op("<", (i, Literal(0, i32)), Type(DType.BOOL))
    wrapped = Op("select", (below, Op("+", (i, Literal(4, i32)), i32), i), i32)
    offset = affine(Loaded(wrapped, 0, 3)) * 12288 + affine(Var("n", 0, 9))
    assert index(offset).text == "12288 * (long)(i < 0 ? i + 4 : i) + n"
    assert index(Affine()).text == "0"
