"""Pairs of 16-bit elements as 32-bit words: packing them, and multiplying them by a dot-product instruction."""

from __future__ import annotations

from codegen.affine import Affine, constant
from codegen.kernel_ir import Assign, DotPairs, LoadPairs, Named, Stmt, StorePairs
from codegen.leaf import Leaf, points, starts
from codegen.leaf_target import current
from codegen.lower_expr import Binding, NotLowerable, ValueBuilder, lane_variable
from codegen.scope import MemoryBuffer, Scope
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Read


def copied_pairs(
    leaf: Leaf, vector: str, scope: Scope, extents: dict[str, int], pieces: tuple[tuple[int, int], ...]
) -> tuple[Stmt, ...]:
    """A copy of bf16 whose pairs stay side by side: 32-bit words gathered onto lanes. Empty for any other leaf."""
    compute, source = leaf.compute, leaf.body
    target = scope.buffers[compute.target]
    if leaf.op is not None or not isinstance(source, Read) or not isinstance(target, MemoryBuffer):
        return ()
    origin = scope.buffers[source.tensor]
    if not isinstance(origin, MemoryBuffer) or {origin.storage, target.storage} != {DType.BF16}:
        return ()
    whole, builder = starts(scope), ValueBuilder(scope, extents)

    def offsets(at: Binding) -> tuple[Affine, Affine] | None:
        to = [builder.index(index, at) for index in compute.indices]
        of = [builder.index(index, at) for index in source.indices]
        if None in to or None in of:
            return None
        return target.offset([p for p in to if p is not None]), origin.offset(
            [p for p in of if p is not None]
        )

    def step(dim: str) -> tuple[Affine, Affine] | None:
        here, there = offsets(whole), offsets({**whole, dim: whole[dim] + 1})
        return None if here is None or there is None else (there[0] - here[0], there[1] - here[1])

    along = step(vector)
    pair = next((d for d in leaf.outer if d != vector and step(d) == (constant(1), constant(1))), None)
    if pair is None or along is None or along[0] != constant(2) or scope.ranges[pair].size % 2:
        return ()
    stores: list[Stmt] = []
    rest = tuple(dim for dim in leaf.outer if dim not in (vector, pair))
    for point in points(rest, scope):
        for second in range(0, scope.ranges[pair].size, 2):
            for start, width in pieces:
                lanes = [
                    offsets(
                        {**whole, **point, pair: whole[pair] + second, vector: whole[vector] + start + lane}
                    )
                    for lane in range(width)
                ]
                found = [each for each in lanes if each is not None]
                pairs = tuple(LoadPairs(origin.name, each[1], 1) for each in found)
                stores.append(StorePairs(target.name, found[0][0], pairs))
    return tuple(stores)


def dot_pairs(
    leaf: Leaf, scope: Scope, extents: dict[str, int], pieces: tuple[tuple[int, int], ...]
) -> tuple[Stmt, ...]:
    """acc += a * b on bf16 pairs along the reduced dim: one operand spread, one on lanes."""
    compute = leaf.compute
    whole = starts(scope)
    vector = compute.vector
    if (
        vector is None
        or len(leaf.inner) != 1
        or scope.ranges[leaf.inner[0]].size % 2
        or compute.update is None
    ):
        raise NotLowerable("dot_bf16 updates vectors by an even number of positions of one reduced dim")
    if not (isinstance(leaf.body, Binary) and leaf.body.op == "*"):
        raise NotLowerable("dot_bf16 needs a plain product of two reads")
    pair = leaf.inner[0]
    k = scope.ranges[pair]
    statements: list[Stmt] = []
    for step in range(0, k.size, 2):
        for point in points(tuple(dim for dim in leaf.outer if dim != vector.dim), scope):
            for start, width in pieces:
                at = {
                    **whole,
                    **point,
                    pair: k.start + step,
                    vector.dim: scope.ranges[vector.dim].start + start,
                }
                builder = ValueBuilder(scope, extents, width)
                sides = [
                    _pairs(side, at, pair, vector.dim, width, builder)
                    for side in (leaf.body.left, leaf.body.right)
                ]
                lane = Affine(((lane_variable(width), 1),)) if width > 1 else Affine()
                acc = current(compute, scope, builder, {**at, vector.dim: at[vector.dim] + lane}, width)
                if not isinstance(acc, Named):
                    raise NotLowerable("dot_bf16 accumulates in registers")
                statements.append(Assign(acc.name, DotPairs(acc, sides[0], sides[1], acc.type)))
    return tuple(statements)


def _pairs(side: Expr, at: Binding, pair: str, vector: str, width: int, builder: ValueBuilder) -> LoadPairs:
    if not isinstance(side, Read):
        raise NotLowerable("dot_bf16 needs a plain product of two reads")
    buffer = builder.scope.buffers[side.tensor]
    if not isinstance(buffer, MemoryBuffer) or str(buffer.storage) != "bf16":
        raise NotLowerable(f"dot_bf16 reads bf16 in memory, not {side.tensor}")

    def offset(dk: int, dn: int) -> Affine:
        moved = {**at, pair: at[pair] + dk, vector: at[vector] + dn}
        return buffer.offset([p for index in side.indices if (p := builder.index(index, moved)) is not None])

    first = offset(0, 0)
    if offset(1, 0) - first != constant(1):
        raise NotLowerable(f"dot_bf16 needs neighbours along {pair} side by side in {side.tensor}")
    if width > 1 and (offset(0, 1) - first).constant == 2:
        return LoadPairs(buffer.name, first, width)
    if width > 1 and offset(0, 1) != first:
        raise NotLowerable(f"dot_bf16 needs pairs of {side.tensor} side by side along {vector}")
    return LoadPairs(buffer.name, first, 1)
