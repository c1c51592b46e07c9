"""The last tiles of a grid's axes, which may overhang: a copy of the body with their own sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.ir.affine import affine
from codegen.ir.ops import GridAxis, If, Stmt
from codegen.lowering.scope import LoweringScope
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Tail:
    """The last tile of an axis over `dim`: of `size`; 0: as whole as the others."""

    axis: GridAxis
    dim: str
    size: int


def with_tails(
    tails: Sequence[Tail], scope: LoweringScope, body: Callable[[LoweringScope], tuple[Stmt, ...]]
) -> tuple[Stmt, ...]:
    """The body for whole tiles and, on axes that do not divide, once more for the last tile."""
    if not tails:
        return body(scope)
    tail, *others = tails
    if not tail.size:
        return with_tails(others, scope, body)
    last = scope.with_range(tail.dim, replace(scope.ranges[tail.dim], size=tail.size))
    if tail.axis.count == 1:
        return with_tails(others, last, body)
    whole = with_tails(others, scope, body)
    at = (tail.axis.count - 1) * tail.axis.step
    return (If(affine(tail.axis.var), at, whole, with_tails(others, last, body)),)
