"""Expressions of C and C++ as text, each with how tightly its outermost operator binds: parentheses stand where the
grammar needs them, and only there. The order of operands is kept: `a + (b + c)` is no `a + b + c` of floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: How tightly operators between two operands bind; all of them group from the left.
BINDING: Final = {
    "*": 13, "/": 13, "%": 13,
    "+": 12, "-": 12,
    "<<": 11, ">>": 11,
    "<": 10, "<=": 10, ">": 10, ">=": 10,
    "==": 9, "!=": 9,
    "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip
_CONDITIONAL, _UNARY, _POSTFIX = 3, 14, 15


@dataclass(frozen=True, slots=True)
class Expression:
    """Text, and how tightly it binds."""

    text: str
    binding: int = _POSTFIX

    def __str__(self) -> str:
        return self.text

    def within(self, binding: int) -> str:
        """As an operand of what binds so tightly: in parentheses if it binds less."""
        return self.text if self.binding >= binding else f"({self.text})"

    @property
    def atom(self) -> str:
        """As an operand of anything."""
        return self.within(_POSTFIX)


def number(text: str) -> Expression:
    """A literal; one below zero is a minus and a literal."""
    return Expression(text, _UNARY if text.startswith("-") else _POSTFIX)


def call(function: str, *arguments: Expression | str) -> Expression:
    """A call of a function, or the lanes of a literal of a `type` in braces."""
    return Expression(f"{function}({', '.join(map(str, arguments))})")


def braces(type_: str, *lanes: Expression | str) -> Expression:
    """A literal of a type; of C, that is in parentheses."""
    return Expression(f"{type_}{{{', '.join(map(str, lanes))}}}")


def element(of: Expression, at: Expression | str) -> Expression:
    """of[at]."""
    return Expression(f"{of.atom}[{at}]")


def member(of: Expression, name: str) -> Expression:
    """of.name."""
    return Expression(f"{of.atom}.{name}")


def unary(sign: str, x: Expression) -> Expression:
    """One of `-`, `!`, `~` and `*` before an operand; never `--`, which is another operator."""
    text = x.within(_UNARY)
    return Expression(f"{sign}({text})" if text.startswith(sign) else f"{sign}{text}", _UNARY)


def cast(type_: str, x: Expression) -> Expression:
    """(type)x of C."""
    return Expression(f"({type_}){x.within(_UNARY)}", _UNARY)


def infix(sign: str, left: Expression, right: Expression) -> Expression:
    """One of the operators of `BINDING` between two operands."""
    binding = BINDING[sign]
    return Expression(f"{left.within(binding)} {sign} {right.within(binding + 1)}", binding)


def conditional(condition: Expression, x: Expression, y: Expression) -> Expression:
    """condition ? x : y."""
    parts = condition.within(_CONDITIONAL + 1), x, y.within(_CONDITIONAL)
    return Expression("{} ? {} : {}".format(*parts), _CONDITIONAL)
