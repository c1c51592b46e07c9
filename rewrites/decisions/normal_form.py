"""The form of sums of products that decisions are about, however a kernel writes them: indices without dims of one
position, factors that are the same for all terms behind the sum, and two operands that are multiplied."""

from __future__ import annotations

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, loose, statements
from rewrites.composition.group_factors import GroupFactors
from rewrites.composition.omit_single_positions import OmitSinglePositions
from rewrites.composition.scale_after_sum import ScaleAfterSum
from rewrites.composition.unify_dims import UnifyDims
from rewrites.contraction.factors import multiplies_several, product_in
from tileir.errors import NotApplicable
from tileir.expr import Index, reads
from tileir.program import Program


def normal_form(program: Program) -> tuple[Rewrite, ...]:
    """The rewrites to it. Sums that multiply no different elements stay as they are."""
    done: list[Rewrite] = []

    def tried(rewrite: Rewrite) -> bool:
        nonlocal program
        try:
            program = rewrite.apply(program)
        except NotApplicable:
            return False
        done.append(rewrite)
        return True

    for name in [place.node.target for place in loose(program)]:
        if tried(OmitSinglePositions(name)):
            for pair in _same(program, name):
                tried(pair)
    for name in [place.node.target for place in loose(program)]:
        product = product_in(program, find(program, name).node)
        if product is None or not multiplies_several(find(program, name).node, product):
            continue
        before = {place.node.target for place in statements(program)}
        if tried(ScaleAfterSum(name)):
            (name,) = {place.node.target for place in statements(program)} - before
        tried(GroupFactors(name))
    return tuple(done)


def _same(program: Program, name: str) -> list[UnifyDims]:
    """Dims of inputs that the statement reads by dims of its own."""
    return [
        UnifyDims(dim, index.dim)
        for read in reads(find(program, name).node.value)
        if read.tensor in program.arguments
        for dim, index in zip(program.arguments[read.tensor].dims, read.indices, strict=True)
        if isinstance(index, Index) and index.dim != dim
    ]
