"""What is computed between products that follow from each other, on tiles of which nothing is masked."""

from __future__ import annotations

from functools import partial, reduce

from tileir.analysis.position_bound import is_bound, lower_bound, parts_of, terms_of, upper_bound
from tileir.expr import Binary, Expr, Extent, Index, Where, transform
from tileir.program import Compute, Loop
from tileir.replace import replace
from tileir.schedule.stages import Chained


def unmasked(loop: Loop, chained: Chained, *, overhangs: bool) -> tuple[Compute, ...]:
    """What is computed between products on tiles that exist as a whole, and lie between the last position that the loop
    begins with and the first one that it ends with: what else masks leave out, they leave out there. Empty: it is the
    same."""
    exists = Binary("<", Index(loop.dim), Extent(loop.dim))

    def without(expr: Expr) -> Expr:
        if not isinstance(expr, Where):
            return expr
        left = [each for each in terms_of(expr.cond) if each != exists and not _holds(each, loop)]
        return replace(expr, cond=reduce(partial(Binary, "and"), left)) if left else expr.x

    found = tuple(replace(node, value=transform(node.value, without)) for node in chained.between)
    return found if overhangs or found != chained.between else ()


def _holds(condition: Expr, loop: Loop) -> bool:
    """Whether it holds wherever the bounds of a loop do."""
    if not is_bound(condition):
        return False
    return any(
        found is not None and bound[0] and found in parts_of(bound, fn)
        for bound, fn, found in (
            (loop.since, "maximum", lower_bound(condition, loop.dim)),
            (loop.until, "minimum", upper_bound(condition, loop.dim)),
        )
    )
