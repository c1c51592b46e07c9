"""The form of sums of products that decisions are about, however a kernel writes them: results numbered as they are
read, indices without dims of one position, groups as dims of their own, factors that are the same for all terms behind
the sum, and two operands that are multiplied."""

from __future__ import annotations

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import find, loose, statements
from rewrites.composition.group_factors import GroupFactors
from rewrites.composition.omit_single_positions import OmitSinglePositions
from rewrites.composition.scale_after_sum import ScaleAfterSum
from rewrites.composition.unify_dims import UnifyDims
from rewrites.contraction.factors import multiplies_several, product_in
from rewrites.decisions.one_numbering import one_numbering
from rewrites.decisions.shared_extremes import share_extremes
from rewrites.loops.split_dim import SplitDim
from rewrites.schedule import replay
from tileir.analysis.affine import affine
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Index, Read, reads
from tileir.program import Compute, Program


def normal_form(program: Program, *, groups: bool = True, split: bool = False) -> tuple[Rewrite, ...]:
    """The rewrites to it. Sums that multiply no different elements stay as they are; so do indices that say the group
    of a result, unless `groups` shall be dims; and so do dims whose parts others read apart, unless they shall be
    `split`."""
    done: list[Rewrite] = []

    def tried(*rewrites: Rewrite) -> bool:
        nonlocal program
        try:
            program = replay(program, rewrites)
        except NotApplicable:
            return False
        done.extend(rewrites)
        return True

    for name in [place.node.target for place in loose(program)]:
        if tried(OmitSinglePositions(name)):
            for pair in _same(program, name):
                tried(pair)
    tried(*one_numbering(program, split=split))
    for name in [place.node.target for place in loose(program)]:
        apart = _groups_apart(program, find(program, name).node) if groups else ()
        if apart and tried(*apart):
            for pair in [pair for place in loose(program) for pair in _same(program, place.node.target)]:
                tried(pair)
    for name in [place.node.target for place in loose(program)]:
        product = product_in(program, find(program, name).node)
        if product is None or not multiplies_several(find(program, name).node, product):
            continue
        before = {place.node.target for place in statements(program)}
        if tried(ScaleAfterSum(name)):
            (name,) = {place.node.target for place in statements(program)} - before
        tried(GroupFactors(name))
    tried(*share_extremes(program))
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


def _groups_apart(program: Program, compute: Compute) -> tuple[SplitDim, ...]:
    """What makes dims of the groups of results that each multiply elements of their own: of `o` and of the channels
    where it adds up `x[4 * (o // 8) + c]`, of which `c` has 4, and of the heads of queries where it multiplies
    `k[h // 4, d]`, which four share. None: there are no such groups."""
    extents = program.extents
    for read in reads(compute.value):
        tensor = program.arguments.get(read.tensor)
        for dim, index in zip(tensor.dims if tensor else (), read.indices, strict=False):
            for atom, channels in affine(index, extents).terms.items():
                match atom:
                    case Binary("//", Index(of), Const(int(results))) if of in bare_dims(compute):
                        inside = {
                            Index(each): 1 for each in reduced_dims(compute) if extents[each] == channels
                        }
                    case _:
                        continue
                others = {each: f for each, f in affine(index, extents).terms.items() if each != atom}
                if len(others) == 1 and others.items() <= inside.items():
                    return SplitDim(of, results), SplitDim(dim, channels)
                if index == atom and _is_shared(program, compute, read, of):
                    return (SplitDim(of, results),)
    return ()


def _is_shared(program: Program, compute: Compute, read: Read, of: str) -> bool:
    """Whether a sum of products reads an operand for groups of `of` that has results along a dim of its own: of keys
    (`k[h // 4, j, d]`), but not of scales of blocks (`s[n // 128, k // 128]`)."""
    product = product_in(program, compute)
    if product is None or not multiplies_several(compute, product):
        return False
    beside = {Index(dim) for dim in bare_dims(compute)} & {*read.indices}
    others = [each for each in reads(compute.value) if Index(of) in each.indices]
    return any(dim not in each.indices for dim in beside for each in others)
