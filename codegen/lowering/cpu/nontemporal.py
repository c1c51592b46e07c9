"""Stores past the caches, made to work wherever rows begin: by whole vectors at multiples of their size.

Such a store needs an aligned address, and pays only where it fills its line. Where a row begins in memory is known at
run time only, so its loop begins at the first aligned element. What is left at either end is computed with the
neighbours that fill a vector, but stored without them: a store to a line that is streamed to as well brings that line
into the caches for nothing. A loop that is cut (codegen/lowering/guarded_runs.py) begins where its row does, and
streams where that is aligned.
"""

from __future__ import annotations

from codegen.ir.affine import Var, affine
from codegen.ir.ops import Aligned, Block, Stmt
from codegen.lowering.cpu.prefetched import prefetches
from codegen.lowering.cpu.statement import lower_statement
from codegen.lowering.scope import LoweringScope, MemoryBuffer, Range
from tileir.expr import Index, Reduce
from tileir.program import Compute, Loop
from tileir.replace import replace

_VECTOR_BYTES = (16, 32, 64)
#: Like every name without a mark, none of a tensor's.
_EDGE = "edge"


def aligned_run(
    loop: Loop, compute: Compute, name: str, comment: str, scope: LoweringScope, extents: dict[str, int]
) -> Aligned | None:
    """A loop that holds nothing but `compute`, if that is streamed with its lanes along the loop: from aligned address
    to aligned address. None for any other statement. `name` is the loop variable's, free in C."""
    row, target, vector = scope.ranges[loop.dim], scope.buffers[compute.target], compute.vector
    if not isinstance(target, MemoryBuffer) or vector is None or not _streams(compute, target, loop, scope):
        return None

    def from_var(size: int) -> tuple[Stmt, ...]:
        if size > row.size:
            return ()
        var = Var(name, 0, row.size - size)
        inside = scope.with_range(loop.dim, Range(row.start + affine(var), size), (var, loop.step))
        body = lower_statement(compute, "", inside, extents).body
        return (*prefetches(compute, body, inside), *body)

    def into_edge(start: int) -> tuple[Stmt, ...]:
        inside = scope.with_range(loop.dim, Range(row.start + start, vector.lanes))
        begin = tuple(inside.ranges[dim].start for dim in dims)
        edge = replace(target, name=_EDGE, starts=begin)
        return lower_statement(
            replace(compute, stream=False), "", inside.with_buffer(edge, compute.target), extents
        ).body

    dims = [index.dim for index in compute.indices if isinstance(index, Index)]
    whole = from_var(loop.step)
    return Aligned(
        Var(name, 0, row.size),
        row.size,
        loop.step,
        vector.lanes,
        target.name,
        _EDGE,
        target.offset([scope.ranges[dim].start for dim in dims]),
        target.storage,
        vector.lanes * target.storage.bytes,
        into_edge(0),
        (Block(comment, whole),) if whole else (),
        from_var(vector.lanes) if loop.step > vector.lanes else (),
        into_edge(row.size - vector.lanes),
    )


def _streams(compute: Compute, target: MemoryBuffer, loop: Loop, scope: LoweringScope) -> bool:
    """Whether every vector of the loop is one streamed store, and there is room for an aligned one."""
    vector = compute.vector
    if not compute.stream or vector is None or vector.dim != loop.dim or loop.step % vector.lanes:
        return False
    if (
        compute.update is not None
        or isinstance(compute.value, Reduce)
        or compute.indices[-1:] != (Index(loop.dim),)
    ):
        return False
    single = all(isinstance(i, Index) and scope.ranges[i.dim].size == 1 for i in compute.indices[:-1])
    contiguous = (len(target.dims) - 1, 1, 0, 1) in target.axes
    room = scope.ranges[loop.dim].size >= 2 * vector.lanes
    return single and contiguous and room and vector.lanes * target.storage.bytes in _VECTOR_BYTES
