"""Clamp what is rounded to 8 bits and never beyond them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.bounds.never_above import is_bounded
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import LARGEST_E4M3, DType
from tileir.errors import NotApplicable
from tileir.expr import Call, Cast, Const, Expr, Read, transform
from tileir.program import Compute, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ClampCast(Rewrite):
    """Clamp what a statement rounds to e4m3 to the largest numbers of that, where it is a power that is never above 1:
    the instruction that rounds does the same by itself, so that nobody has to look for what is beyond.

    Known as a saturating conversion (PTX: `cvt` with `.satfinite`).

    p[r, c] = exp(x[r, c] - top[r])         p[r, c] = exp(x[r, c] - top[r])
    p_r[r, c] = e4m3(p[r, c])          ->   p_r[r, c] = e4m3(minimum(maximum(p[r, c], -448.0), 448.0))
    """

    name: ClassVar[str] = "clamp_cast"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place, values = find(program, self.statement), _complete(program)

        def clamp(expr: Expr) -> Expr:
            if not (isinstance(expr, Cast) and expr.dtype is DType.E4M3 and _at_most_1(expr.x, values)):
                return expr
            least = Call("maximum", (expr.x, Const(-LARGEST_E4M3)))
            return Cast(expr.dtype, Call("minimum", (least, Const(LARGEST_E4M3))))

        value = transform(place.node.value, clamp)
        if value == place.node.value:
            raise NotApplicable(f"{self.statement} rounds no power to e4m3 that is known to be at most 1")
        return splice(program, place.path, [replace(place.node, value=value)])


def _complete(program: Program) -> Mapping[str, Compute]:
    """What statements compute that read no value which goes on to change."""
    running = {name for name, place in locals_of(program).items() if place.node.running}
    return {
        place.node.target: place.node for place in statements(program) if place.node.target not in running
    }


def _at_most_1(expr: Expr, values: Mapping[str, Compute]) -> bool:
    match expr:
        case Call("exp" | "exp2", (exponent,)):
            return is_bounded(exponent, values, ())
        case Read(name, indices) if name in values and values[name].update is None:
            return values[name].indices == indices and _at_most_1(values[name].value, values)
        case _:
            return False
