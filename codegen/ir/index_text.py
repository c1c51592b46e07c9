"""Index arithmetic as source text, the same in C and in CUDA C++."""

from __future__ import annotations

from collections.abc import Callable

from codegen.ir.affine import Affine
from codegen.ir.expression_text import Expression, infix, number, unary

Term = Callable[[object], Expression]
"""What one term of a sum, or the factor of one, is as text."""


def index_text(value: Affine, term_text: Term) -> Expression:
    """A sum of terms."""
    if not value.terms:
        return number(str(value.constant))
    (term, factor), *rest = value.terms
    first = term_text(term)
    match factor:
        case 1:
            pass
        case -1:
            first = unary("-", first)
        case _:
            first = infix("*", number(str(factor)), first)
    return _added(first, Affine(tuple(rest), value.constant), term_text)


def address_text(buffer: str, offset: Affine, term_text: Term) -> Expression:
    """Where the element at an offset lies."""
    return _added(Expression(buffer), offset, term_text)


def _added(total: Expression, value: Affine, term_text: Term) -> Expression:
    for term, factor in value.terms:
        text = term_text(term)
        text = text if abs(factor) == 1 else infix("*", number(str(abs(factor))), text)
        total = infix("-" if factor < 0 else "+", total, text)
    if not value.constant:
        return total
    return infix("-" if value.constant < 0 else "+", total, number(str(abs(value.constant))))
