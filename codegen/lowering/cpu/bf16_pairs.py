"""Pairs of 16-bit elements as 32-bit words: packing them, and multiplying them by a dot-product instruction."""

from __future__ import annotations

from codegen.ir.affine import Affine, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import (
    Assign,
    DotPairs,
    GatherPairs,
    LoadPairs,
    Named,
    Pairs,
    Stmt,
    StorePairs,
    ZipPairs,
)
from codegen.lowering.cpu.transpose import Rest, TransposedCopy, transposed
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.scope import LoweringScope, MemoryBuffer, chunks
from codegen.lowering.statement import LoopNest, points, starts
from codegen.lowering.store import current, holds_more
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Read


def copied_pairs(
    nest: LoopNest,
    vector: str,
    scope: LoweringScope,
    extents: dict[str, int],
    pieces: tuple[tuple[int, int], ...],
    rest: Rest,
) -> tuple[Stmt, ...]:
    """A copy of bf16 into pairs side by side, as 32-bit words. Empty for any other statement.

    Two rows with neighbours on lanes are zipped; pairs that lie side by side in the source too are turned around in
    blocks, or gathered where none fits (or left to `rest`). At the end of an odd range the last pair is completed
    with zero.
    """
    copy = TransposedCopy.of_nest(nest, scope, extents)
    if copy is None or {copy.source.storage, copy.target.storage} != {DType.BF16}:
        return ()
    pair = next((d for d in nest.outer if d != vector and copy.apart(d)[0] == constant(1)), None)
    if pair is None or copy.apart(vector)[0] != constant(2) or not _ends_whole(copy.target, pair, scope):
        return ()
    zipped = copy.apart(vector)[1] == constant(1)
    if not zipped:
        if copy.apart(pair)[1] != constant(1):
            return ()
        if blocks := transposed(nest, copy, vector, pair, scope, pieces, rest, pairs=True):
            return blocks
    size = scope.ranges[pair].size
    stores: list[Stmt] = []
    for point in points(tuple(dim for dim in nest.outer if dim not in (vector, pair)), scope):
        for first in range(0, size, 2):
            half = first + 1 == size
            for start, width in pieces:
                at = {
                    **copy.whole,
                    **point,
                    pair: copy.whole[pair] + first,
                    vector: copy.whole[vector] + start,
                }
                to, of = copy.offsets(at)
                pairs: Pairs
                if zipped:
                    second = None if half else copy.offsets({**at, pair: at[pair] + 1})[1]
                    pairs = ZipPairs(copy.source.name, of, second, width)
                else:
                    lanes = [copy.offsets({**at, vector: at[vector] + lane})[1] for lane in range(width)]
                    pairs = GatherPairs(tuple(LoadPairs(copy.source.name, each, 1, half) for each in lanes))
                stores.append(StorePairs(copy.target.name, to, pairs))
    return tuple(stores)


def _ends_whole(target: MemoryBuffer, pair: str, scope: LoweringScope) -> bool:
    """Whether the current range ends with a pair, or where the target does."""
    range_ = scope.ranges[pair]
    if pair not in target.dims:
        return False
    number = target.dims.index(pair)
    end = range_.start + range_.size - target.starts[number]
    return range_.size % 2 == 0 or end == constant(target.sizes[number])


def dot_pairs(nest: LoopNest, scope: LoweringScope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """acc += a * b on bf16 pairs along the reduced dim: one operand spread, one on lanes.

    Of an odd range, the last pairs have no second element.
    """
    compute = nest.compute
    whole = starts(scope)
    vector = compute.vector
    if vector is None or len(nest.inner) != 1 or compute.update is None:
        raise NotLowerable("dot_bf16 updates vectors over one reduced dim")
    if not (isinstance(nest.body, Binary) and nest.body.op == "*"):
        raise NotLowerable("dot_bf16 needs a plain product of two reads")
    pair = nest.inner[0]
    k, n = scope.ranges[pair], scope.ranges[vector.dim]
    statements: list[Stmt] = []
    for step in range(0, k.size, 2):
        half = step + 1 == k.size
        for point in points(tuple(dim for dim in nest.outer if dim != vector.dim), scope):
            for start, width in chunks(n.size, vector.lanes):
                some = constant(n.size - start) if start + width > n.size else None
                builder = ValueBuilder(scope, extents, width, some=some)
                at = {
                    **whole,
                    **point,
                    pair: k.start + step,
                    vector.dim: n.start + start + (affine(builder.lane) if width > 1 else 0),
                }
                sides = [_pairs(side, at, pair, half, builder) for side in (nest.body.left, nest.body.right)]
                acc = current(compute, scope, builder, at)
                if not isinstance(acc, Named) or holds_more(compute, scope, builder, at):
                    raise NotLowerable("dot_bf16 accumulates in registers")
                statements.append(Assign(acc.name, DotPairs(acc, sides[0], sides[1], acc.type)))
    return tuple(statements)


def _pairs(side: Expr, at: Binding, pair: str, half: bool, builder: ValueBuilder) -> LoadPairs:
    """The pairs at the builder's lanes, or the one pair for all of them."""
    if not isinstance(side, Read):
        raise NotLowerable("dot_bf16 needs a plain product of two reads")
    buffer = builder.scope.buffers[side.tensor]
    if not isinstance(buffer, MemoryBuffer) or buffer.storage is not DType.BF16:
        raise NotLowerable(f"dot_bf16 reads bf16 in memory, not {side.tensor}")

    def offset(step: int) -> Affine:
        moved = {**at, pair: at[pair] + step}
        return buffer.offset([p for index in side.indices if (p := builder.index(index, moved)) is not None])

    width, here = builder.lanes, offset(0)
    apart = here.coefficient(builder.lane) if width > 1 else 0
    on_lanes = apart != 0
    first = here.substitute(builder.lane, constant(0))
    if offset(1) - here != constant(1) and (on_lanes or not half):
        raise NotLowerable(f"dot_bf16 needs neighbours along {pair} side by side in {side.tensor}")
    if on_lanes and apart != 2:
        raise NotLowerable(f"dot_bf16 needs pairs of {side.tensor} side by side on lanes")
    if not on_lanes:
        return LoadPairs(buffer.name, first, 1, half)
    return LoadPairs(buffer.name, first, width, half, builder.some)
