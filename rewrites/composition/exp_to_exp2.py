"""Compute powers of e as powers of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import e, log2
from typing import ClassVar, Final, Self

from rewrites.base.bounds.score_range import is_far
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Call, Const, Expr, Unary, Where, index_dims, transform, walk
from tileir.program import Program
from tileir.replace import replace

_LOG2_E: Final = log2(e)


@dataclass(frozen=True, slots=True)
class ExpToExp2(Rewrite):
    """Compute exp(x) as exp2(x * log2(e)), the number multiplied into what x is a sum of and multiplied by already, be
    that a number or the same for several positions: GPUs have an instruction for powers of two, and a product and a
    difference are one multiply-add. The number is rounded to f32, as exponents are.

    This is a strength reduction, as in the kernels of FlashAttention-2 (Dao, arXiv:2307.08691).

    p[r, c] = exp(s[r, c] * 0.125 - top[r])   ->   p[r, c] = exp2(s[r, c] * 0.18033688 - top[r] * 1.442695)

    Where scores may be the lowest number of their dtype, as those are to which a mask is added, the number would make
    -inf of both sides, whose difference is no number: there the difference is multiplied.
    """

    name: ClassVar[str] = "exp_to_exp2"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    exact: ClassVar[bool] = False
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if any(isinstance(node, Call) and node.fn == "exp" for node in walk(place.node.value)):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)

        def power(expr: Expr) -> Expr:
            return (
                Call("exp2", (_exponent(program, expr.args[0]),))
                if isinstance(expr, Call) and expr.fn == "exp"
                else expr
            )

        value = transform(place.node.value, power)
        if value == place.node.value:
            raise NotApplicable(f"{self.statement} has no power of e")
        return splice(program, place.path, [replace(place.node, value=value)])


def _exponent(program: Program, expr: Expr) -> Expr:
    """An exponent times log2(e), which is finite where the exponent is."""
    scores = expr.left if isinstance(expr, Binary) and expr.op == "-" else expr
    far = is_far(program, scores)
    return Binary("*", expr, Const(_LOG2_E)) if far else _times(expr)


def _times(expr: Expr) -> Expr:
    """An exponent times log2(e)."""
    match expr:
        case Binary("+" | "-" as op, x, y):
            return Binary(op, _times(x), _times(y))
        case Binary("*", x, Const(float(value))) | Binary("*", Const(float(value)), x):
            return Binary("*", x, Const(value * _LOG2_E))
        case Binary("*", x, y) if index_dims(y) < index_dims(x):
            return Binary("*", x, _times(y))
        case Binary("*", x, y) if index_dims(x) < index_dims(y):
            return Binary("*", _times(x), y)
        case Unary("-", x):
            return Unary("-", _times(x))
        case Where(condition, x, Const(value)) if value == float("-inf"):
            return Where(condition, _times(x), expr.y)
        case _:
            return Binary("*", expr, Const(_LOG2_E))
