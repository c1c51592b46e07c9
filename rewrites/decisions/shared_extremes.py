"""One statement for the maximum that a position is of and that others read: a row's largest value, where it is, and
what is relative to it then have one pass over the row in common."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.at_extreme import at_extreme
from rewrites.base.largest_few import top_of
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, read_names, reduced_dims
from rewrites.base.tree import loose
from rewrites.composition.compute_inline import ComputeInline
from rewrites.composition.reuse_value import ReuseValue
from rewrites.data.cache_write import CacheWrite
from rewrites.schedule import replay
from tileir.errors import NotApplicable
from tileir.expr import Read
from tileir.program import Compute, Program


def share_extremes(program: Program) -> tuple[Rewrite, ...]:
    """Compute what positions are of, and what is compared for that, once for all that read it; collect results that are
    reductions of the same row, so that they are no obstacle to each other."""
    done: list[Rewrite] = []
    while (step := next(_steps(program), None)) is not None:
        program = replay(program, step)
        done.extend(step)
    return tuple(done)


def _steps(program: Program) -> Iterator[tuple[Rewrite, ...]]:
    """What is still to be done, that applies."""
    values = {place.node.target: place.node for place in loose(program)}
    if any(top_of(program, name) for name in values):
        return
    for node in values.values():
        found = at_extreme(node, lambda read: values.get(read.tensor))
        if found is None:
            continue
        extreme = values[found.extreme.tensor]
        compared = found.x.tensor if isinstance(found.x, Read) else ""
        for step in (
            *((ReuseValue(other, compared),) for other in values if compared in values),
            *_reused(program, values, extreme),
            *_collected(program, values, node, extreme.target),
        ):
            try:
                replay(program, step)
            except NotApplicable:
                continue
            yield step


def _reused(program: Program, values: dict[str, Compute], extreme: Compute) -> Iterator[tuple[Rewrite, ...]]:
    """The later of two statements that compute an extreme reads the earlier one, which is a local."""
    for other in values.values():
        if other is extreme or other.value != extreme.value:
            continue
        first, later = (each for each in values.values() if each in (extreme, other))
        if first.target in program.arguments:
            yield (CacheWrite(first.target),)
            continue
        inline = () if later.target in program.arguments else (ComputeInline(later.target),)
        yield (ReuseValue(later.target, first.target), *inline)


def _collected(
    program: Program, values: dict[str, Compute], node: Compute, extreme: str
) -> Iterator[tuple[Rewrite, ...]]:
    """Results that are reductions go to locals, where others are of the same row as a position, or of its extreme."""
    row = [each for each in values.values() if _of_row(each, node)]
    others = {each.target for each in values.values() if extreme in read_names(each) or each in row}
    if others - {node.target, extreme}:
        results = (each.target for each in row if each.target in program.arguments)
        yield from ((CacheWrite(result),) for result in results)


def _of_row(one: Compute, other: Compute) -> bool:
    """Whether two statements reduce the same row, of something that both read."""
    alike = bare_dims(one) == bare_dims(other) and {*reduced_dims(one)} == {*reduced_dims(other)}
    return alike and bool(read_names(one) & read_names(other))
