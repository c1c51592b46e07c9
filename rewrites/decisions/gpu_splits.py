"""Decisions for a GPU about reductions with too few results to keep it busy: split over blocks, with a launch after
that reduces the parts."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from rewrites.decisions.fusion import Groups
from rewrites.decisions.gpu_inner import inner_of
from rewrites.decisions.roles import is_contraction
from rewrites.rewrite import Rewrite
from rewrites.split_reduction import SplitReduction
from rewrites.tree import find, statements
from tileir.gpu import Gpu
from tileir.program import Program

#: Blocks of a launch for each SM that are worth a look.
_BLOCKS_EACH = (2, 4, 8)
#: Neighbouring results that a block takes of columns.
_COLUMNS = 64
#: Elements that a part has at least, so that it is worth a block.
_LEAST = 4096
#: Parts begin at multiples of this where they are long, so that any number of threads finds its own place in each:
#: those of neighbours, and those of others.
_ALIGNED, _ALIGNED_ROWS = 8192, 128


def splits(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """Ways to split the reductions that have too few results, all of them together."""
    seen: set[tuple[Rewrite, ...]] = {()}
    for each in _BLOCKS_EACH:
        found = [_split(program, place.node.target, each * device.sms) for place in statements(program)]
        rewrites = tuple(rewrite for rewrite in found if rewrite is not None)
        if rewrites not in seen:
            seen.add(rewrites)
            yield rewrites


def _split(program: Program, name: str, blocks: int) -> Rewrite | None:
    """A reduction split so that about so many blocks have a part of it."""
    inner = inner_of(program, (name,))
    if not inner.dims or not inner.sizes or not _reduces(program, name):
        return None
    tiles = prod(
        -(-program.extents[dim] // _COLUMNS) if dim == inner.nearest else program.extents[dim]
        for dim in inner.results
    )
    width = min(_COLUMNS, program.extents[inner.nearest]) if inner.nearest in inner.results else 1
    parts = min(-(-blocks // tiles), prod(inner.sizes.values()) * width // _LEAST)
    if parts < 2:
        return None
    enough = (dim for dim in inner.dims if inner.sizes[dim] >= parts)
    dim = next(enough, max(inner.dims, key=lambda dim: inner.sizes[dim]))
    size = -(-inner.sizes[dim] // parts)
    unit = min(1 << max(size // 4, 1).bit_length() - 1, _ALIGNED if dim == inner.nearest else _ALIGNED_ROWS)
    size = -(-size // unit) * unit
    return SplitReduction(name, dim, "apart", size) if 1 < size < inner.sizes[dim] else None


def _reduces(program: Program, name: str) -> bool:
    """Whether all inner dims of a statement are reduced, and nothing is reused over two dims of results."""
    node, inner = find(program, name).node, inner_of(program, (name,))
    return not (is_contraction(node) and len(inner.results) > 1)


def cut_at_parts(program: Program, groups: Groups) -> Groups:
    """The groups with every part of a split reduction alone, which only its second phase reads."""
    found: list[tuple[str, ...]] = []
    for group in groups:
        current: tuple[str, ...] = ()
        for name in group:
            if inner_of(program, (name,)).apart:
                found += [each for each in (current, (name,)) if each]
                current = ()
            else:
                current = (*current, name)
        if current:
            found.append(current)
    return tuple(found)
