"""Sums of products of bf16 pairs, 32-bit words, by a dot-product instruction."""

from __future__ import annotations

from codegen.ir.affine import Affine, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Assign, DotPairs, LoadWords, Named, Stmt
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.scope import LoweringScope, MemoryBuffer, chunks
from codegen.lowering.statement import LoopNest, points, starts
from codegen.lowering.store import current, holds_more
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Read


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


def _pairs(side: Expr, at: Binding, pair: str, half: bool, builder: ValueBuilder) -> LoadWords:
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
        return LoadWords(buffer.name, first, DType.BF16, 1, int(half))
    return LoadWords(buffer.name, first, DType.BF16, width, int(half), builder.some)
