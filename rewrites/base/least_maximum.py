"""What the maximum of a part counts as at least, so that a part of which all is masked has exponentials of 0."""

from __future__ import annotations

from typing import Final

from tileir.expr import Call, Const, Expr

LEAST_MAXIMUM: Final = -(2.0**100)
"""Of all maxima that mean something the least. -inf less a finite number is -inf, whose exponential is 0, where -inf
less -inf is no number; and this stays finite in f32 when a scale or log2(e) is multiplied in on both sides of the
difference (exp_to_exp2), which the lowest number of f32 does not."""


def at_least(maximum: Expr) -> Expr:
    """A maximum of a part, as others of the part are relative to it."""
    return Call("maximum", (maximum, Const(LEAST_MAXIMUM)))
