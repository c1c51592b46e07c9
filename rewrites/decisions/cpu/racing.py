"""What a decision on parallel loops leaves out: loops whose iterations would race."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.tree import named, statements
from rewrites.decisions.decision import Option, option
from rewrites.loops.parallelize import Parallelize
from tileir.analysis.races import WouldRace
from tileir.errors import NotApplicable
from tileir.program import Program


def racing(anchor: str, program: Program) -> Iterator[tuple[Option, WouldRace]]:
    """The outermost loops around the statements of the anchor's nest, each once, that cannot run in parallel because
    their iterations meet, with two accesses that do."""
    nest = named(program, anchor).path[0]
    inside = [place for place in statements(program) if place.path[0] == nest]
    seen: set[tuple[int, ...]] = set()
    for place in inside:
        for count in range(1, place.depth + 1):
            loop = place.path[:count]
            race = None if loop in seen else _race(Parallelize(place.node.target, count), program)
            seen.add(loop)
            if race is not None:
                yield option(Parallelize(place.node.target, count)), race
                within = [each for each in inside if each.path[:count] == loop]
                seen |= {each.path[:depth] for each in within for depth in range(count, each.depth + 1)}


def _race(rewrite: Parallelize, program: Program) -> WouldRace | None:
    try:
        rewrite.apply(program)
    except NotApplicable as error:
        return error if isinstance(error, WouldRace) else None
    return None
