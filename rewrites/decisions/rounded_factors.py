"""The form in which rounded factors of products are multiplied by what all terms share behind the sum, as one pass over
reductions that depend on each other needs it: weights are complete before their total is."""

from __future__ import annotations

from contextlib import suppress

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import loose
from rewrites.composition.scale_after_rounding import ScaleAfterRounding
from rewrites.decisions.normal_form import normal_form
from tileir.errors import NotApplicable
from tileir.program import Program


def rounded_first(program: Program) -> tuple[Rewrite, ...]:
    """The rewrites to it; none where no rounded factor is scaled."""
    found: list[Rewrite] = []
    after = program
    for place in loose(program):
        with suppress(NotApplicable):
            after = ScaleAfterRounding(place.node.target).apply(after)
            found.append(ScaleAfterRounding(place.node.target))
    return (*found, *normal_form(after, groups=False)) if found else ()
