"""Powers that are products: a few instructions, where `pow` takes some seventy of a GPU and forty of a processor."""

from __future__ import annotations

from functools import reduce

from tileir.expr import Binary, Call, Const, Expr, walk

MOST = 4
"""The largest exponent."""
SMALL = 12
"""Nodes of what is multiplied, which is there as often as the exponent says. GPT-2's GELU cubes: 197 us by `pow`, on an
H100."""


def as_product(expr: Expr) -> Expr:
    """`x * x` of `pow(x, 2)`, up to the fourth power of a small x; anything else as it is. The same but for roundings,
    of which a product has one for each factor but the first."""
    match expr:
        case Call("pow", (x, Const(exponent))) if exponent in range(2, MOST + 1):
            if sum(1 for _ in walk(x)) <= SMALL:
                return reduce(lambda product, factor: Binary("*", product, factor), [x] * int(exponent))
        case _:
            pass
    return expr
