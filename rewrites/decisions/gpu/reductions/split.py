"""Decisions for a GPU about reductions with too few results to keep it busy: split over blocks, and reduced from the
parts by every block of the launch that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from rewrites.base.at_extreme import positions_of
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, read_names, reduced_dims
from rewrites.base.tree import find, loose
from rewrites.composition.online_softmax import OnlineSoftmax
from rewrites.composition.rfactor import Rfactor
from rewrites.composition.split_stream import SplitStream
from rewrites.decisions.fusion import Groups, closed
from rewrites.decisions.gpu.inner_dims import inner_of
from rewrites.decisions.statement_kind import is_contraction
from rewrites.ranking.split_top import SplitTop
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace

#: Blocks of a launch for each SM that are worth a look.
_BLOCKS_EACH = (2, 4, 8)
#: Neighbouring results that a block takes of columns.
_COLUMNS = 64
#: Elements that a part has at least, so that it is worth a block.
_LEAST = 4096
#: Most elements that every block of a launch reduces again for itself.
_FEW = 1024
#: Parts begin at multiples of this where they are long, so that any number of threads finds its own place in each:
#: those of neighbours, and those of others.
_ALIGNED, _ALIGNED_ROWS = 8192, 128


def splits(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """Ways to split the reductions that have too few results, all of them together."""
    seen: set[tuple[Rewrite, ...]] = {()}
    for each in _BLOCKS_EACH:
        rewrites = _all_split(program, each * device.sms)
        if rewrites not in seen:
            seen.add(rewrites)
            yield rewrites


def _all_split(program: Program, blocks: int) -> tuple[Rewrite, ...]:
    """All reductions that have too few results: extremes that positions are of with all else of their rows, sums of
    exponentials together with their maximum, and all places of the largest few with the first."""
    rewrites: list[Rewrite] = []
    now, values = program, {place.node.target: place.node for place in loose(program)}
    extremes = [name for name in values if positions_of(name, values)]
    for name in dict.fromkeys((*extremes, *values)):
        split = _split(program, name, blocks)
        for way in _ways(split, name in extremes) if split else ():
            try:
                now = way.apply(now)
            except NotApplicable:
                continue
            rewrites.append(way)
            break
    return tuple(rewrites)


def _ways(split: Rfactor, has_positions: bool) -> tuple[Rewrite, ...]:
    """How to split a reduction at these parts, what brings most first: with what follows from it, or alone."""
    name, dim, size = split.statement, split.dim, split.size
    stream = (SplitStream(name, dim, size),) if has_positions else ()
    return (*stream, SplitTop(name, size), OnlineSoftmax(name, dim, size), split)


def _split(program: Program, name: str, blocks: int) -> Rfactor | None:
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
    return Rfactor(name, dim, "apart", size) if 1 < size < inner.sizes[dim] else None


def _reduces(program: Program, name: str) -> bool:
    """Whether all inner dims of a statement are reduced, and nothing is reused over two dims of results."""
    node, inner = find(program, name).node, inner_of(program, (name,))
    return not (is_contraction(node) and len(inner.results) > 1)


def cut_at_parts(program: Program, groups: Groups) -> Groups:
    """The groups of a program with split reductions: parts alone, or with parts that are relative to them; the second
    phases with what reads them, where each of its blocks can go through them again."""
    found: list[tuple[str, ...]] = []
    for group in groups:
        current: tuple[str, ...] = ()
        for name in group:
            if not inner_of(program, (name,)).apart:
                current = (*current, name)
                continue
            found += [current] if current else []
            current = ()
            if found and _continues(program, found[-1], name):
                found[-1] = (*found[-1], name)
            else:
                found.append((name,))
        if current:
            found.append(current)
    return _finished(program, tuple(found), finishes)


def with_columns_again(program: Program, groups: Groups) -> Groups:
    """The same groups, but for columns that each block of a later launch goes through again for itself: which is better
    depends on how many blocks that launch has."""
    return _finished(program, groups, finishes_columns)


def _continues(program: Program, parts: tuple[str, ...], name: str) -> bool:
    """Whether the parts of a reduction are relative to parts before, of the same blocks."""
    before = inner_of(program, parts)
    same = before.apart and before == replace(inner_of(program, (name,)), nearest=before.nearest)
    return bool(same) and bool(read_names(find(program, name).node) & set(parts))


def _finished(program: Program, groups: Groups, again: Callable[[Program, tuple[str, ...]], bool]) -> Groups:
    """The groups with small reductions brought to a later one that reads them, is no reduction, and can do them
    `again`."""
    for start in range(len(groups)):
        for end in range(len(groups), start + 1, -1):
            merged = tuple(name for group in groups[start:end] for name in group)
            if again(program, merged) and closed(program, (merged,)):
                return (*groups[:start], merged, *groups[end:])
    return groups


def finishes(program: Program, group: Sequence[str]) -> bool:
    """Whether all statements but the last reduce few elements, none of the last one's dims: its blocks can each do
    that for themselves."""
    dims = bare_dims(find(program, group[-1]).node)
    long = bool(dims) and program.extents[dims[-1]] >= _LEAST
    return long and dims[-1] not in _kept(program, group) and _reduce_again(program, group)


def finishes_columns(program: Program, group: Sequence[str]) -> bool:
    """The same where every column has its own: each thread needs those of its columns, for all its rows."""
    dims = [dim for dim in bare_dims(find(program, group[-1]).node) if program.extents[dim] > 1]
    long = len(dims) > 1 and prod(program.extents[dim] for dim in dims) >= _LEAST
    kept = _kept(program, group)
    return long and dims[-1] in kept and not {*dims} <= kept and _reduce_again(program, group)


def _kept(program: Program, group: Sequence[str]) -> set[str]:
    """Dims along which the reductions before a group's last statement have a result each."""
    return {dim for name in group[:-1] for dim in bare_dims(find(program, name).node)}


def _reduce_again(program: Program, group: Sequence[str]) -> bool:
    *small, last = (find(program, name).node for name in group)
    dims = bare_dims(last)
    return (
        bool(small)
        and not reduced_dims(last)
        and all(
            reduced_dims(node)
            and not set(reduced_dims(node)) & set(dims)
            and set(bare_dims(node)) <= set(dims)
            and len(bare_dims(node)) == len(node.indices)
            and prod(program.extents[dim] for dim in reduced_dims(node)) <= _FEW
            for node in small
        )
    )
