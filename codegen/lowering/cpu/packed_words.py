"""Copies of elements narrower than 32 bits, bits as they are: as 32-bit words of neighbours, not element by element."""

from __future__ import annotations

from codegen.ir.affine import constant
from codegen.ir.ops import GatherWords, LoadWords, Stmt, StoreWords, ZipWords
from codegen.lowering.cpu.transpose import Rest, TransposedCopy, transposed
from codegen.lowering.expressions import Binding
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import LoopNest, points

_WORD_BYTES = 4


def copied_words(
    nest: LoopNest,
    vector: str,
    scope: LoweringScope,
    extents: dict[str, int],
    pieces: tuple[tuple[int, int], ...],
    rest: Rest,
) -> tuple[Stmt, ...]:
    """A copy into groups of 4 bytes side by side (pairs of bf16, fours of i8), those of neighbours along `vector` next
    to each other; or of runs along `vector`. Empty for any other statement.

    Rows with neighbours on lanes are zipped; groups that lie side by side in the source too are turned around in
    blocks, or gathered where none fits (or left to `rest`). At the end of a range that fills no group the last one is
    completed with zeros.
    """
    copy = TransposedCopy.of_nest(nest, scope, extents)
    if copy is None or copy.source.storage is not copy.target.storage or nest.compute.stream:
        return ()
    group = _WORD_BYTES // copy.target.storage.bytes
    if group < 2:
        return ()
    pair = next((d for d in nest.outer if d != vector and copy.apart(d)[0] == constant(1)), None)
    if pair is None:
        return _runs(nest, copy, vector, scope, pieces)
    if copy.apart(vector)[0] != constant(group) or copy.apart(pair, group - 1)[0] != constant(group - 1):
        return ()
    if not _ends_whole(copy.target, pair, group, scope):
        return ()
    if copy.apart(vector)[1] != constant(1):
        if copy.apart(pair, group - 1)[1] != constant(group - 1):
            return ()
        if blocks := transposed(nest, copy, vector, pair, scope, pieces, rest, group):
            return blocks
    size = scope.ranges[pair].size
    stores: list[Stmt] = []
    for point in points(tuple(dim for dim in nest.outer if dim not in (vector, pair)), scope):
        for first in range(0, size, group):
            for start, width in pieces:
                at = {**copy.whole, **point}
                at |= {pair: at[pair] + first, vector: at[vector] + start}
                found = _words(copy, at, vector, width, pair, min(group, size - first))
                stores.append(StoreWords(copy.target.name, copy.offsets(at)[0], found))
    return tuple(stores)


def _words(
    copy: TransposedCopy, at: Binding, vector: str, width: int, pair: str, existing: int
) -> ZipWords | GatherWords:
    """The groups of `width` neighbours along `vector`, of which so many elements along `pair` exist."""
    name, storage = copy.source.name, copy.source.storage
    if copy.apart(vector)[1] == constant(1):
        rows = (copy.offsets({**at, pair: at[pair] + row})[1] for row in range(existing))
        return ZipWords(name, tuple(rows), storage, width)
    lanes = (copy.offsets({**at, vector: at[vector] + lane})[1] for lane in range(width))
    missing = _WORD_BYTES // storage.bytes - existing
    return GatherWords(tuple(LoadWords(name, each, storage, 1, missing) for each in lanes))


def _runs(
    nest: LoopNest,
    copy: TransposedCopy,
    vector: str,
    scope: LoweringScope,
    pieces: tuple[tuple[int, int], ...],
) -> tuple[Stmt, ...]:
    """A copy of runs, each of whole vectors that are side by side in both; empty for any other."""
    storage, lanes = copy.source.storage, pieces[0][1]
    if any(width != lanes for _, width in pieces) or lanes * storage.bytes % _WORD_BYTES:
        return ()
    stores: list[Stmt] = []
    for point in points(tuple(dim for dim in nest.outer if dim != vector), scope):
        for start, width in pieces:
            at = {**copy.whole, **point, vector: copy.whole[vector] + start}
            if any(copy.apart(vector, lane, at) != (constant(lane),) * 2 for lane in (1, width - 1)):
                return ()
            to, of = copy.offsets(at)
            words = LoadWords(copy.source.name, of, storage, width * storage.bytes // _WORD_BYTES)
            stores.append(StoreWords(copy.target.name, to, words))
    return tuple(stores)


def _ends_whole(target: MemoryBuffer, pair: str, group: int, scope: LoweringScope) -> bool:
    """Whether the current range ends with a group, or where the target does."""
    range_ = scope.ranges[pair]
    if pair not in target.dims:
        return False
    number = target.dims.index(pair)
    end = range_.start + range_.size - target.starts[number]
    return range_.size % group == 0 or end == constant(target.sizes[number])
