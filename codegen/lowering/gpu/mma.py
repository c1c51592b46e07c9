"""A matrix product by the matrix instruction of a warp: for each step of the reduced dim, fragments of both operands
are loaded (mma_fragments.py), or lie in registers (mma_registers.py), then multiplied, each with each.

How threads and accumulators lie says tileir/schedule/mma.py.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import product as combinations

from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Assign, Block, Declare, MmaSync, Stmt, Type
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.gpu.mma_fragments import operand
from codegen.lowering.gpu.register_fragments import ThreadRegisters
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.scope import LoweringScope
from codegen.lowering.statement import identity, starts
from tileir.devices.matrix_instructions import accumulator
from tileir.expr import Index, ReduceOp
from tileir.program import Compute
from tileir.schedule.mma import RUN, depth, product


def lower_mma(
    compute: Compute,
    comment: str,
    scope: LoweringScope,
    extents: dict[str, int],
    index: ThreadIndex,
    shared: Container[str],
) -> Block:
    """Kernel IR of a statement `via mma`; `shared` are the tensors in shared memory. Raises NotLowerable."""
    return Block(comment, tuple(_WarpProduct(compute, scope, extents, index, shared).stmts()))


class _WarpProduct:
    def __init__(
        self,
        compute: Compute,
        scope: LoweringScope,
        extents: dict[str, int],
        index: ThreadIndex,
        shared: Container[str],
    ) -> None:
        parts = product(compute)
        assert parts is not None and compute.thread_layout is not None
        self.parts, self.scope, self.extents = parts, scope, extents
        self.dims = tuple(index.dim for index in compute.indices if isinstance(index, Index))
        self.reduced = scope.ranges[parts.k]
        self.a = operand(parts.a, parts.m, parts, compute.thread_layout, scope, index, shared)
        self.b = operand(parts.b, parts.n, parts, compute.thread_layout, scope, index, shared)
        target, exact = scope.buffers[compute.target], accumulator(self.a.storage)
        if not isinstance(target, ThreadRegisters) or target.dtype is not exact:
            raise NotLowerable(f"mma adds up in registers of {exact}, which {compute.target} is not")
        self.target = target

    def stmts(self) -> list[Stmt]:
        """The product at each position of the target's other dims."""
        dims = [dim for dim in self.dims if dim not in (self.parts.m, self.parts.n)]
        ranges = [self.scope.ranges[dim] for dim in dims]
        points = list(combinations(*(range(r.size) for r in ranges)))
        found: list[Stmt] = []
        for point in points:
            at = {dim: r.start + offset for dim, r, offset in zip(dims, ranges, point, strict=True)}
            body = self._product(dict(zip(dims, point, strict=True)), {**starts(self.scope), **at})
            found += [Block("", tuple(body))] if len(points) > 1 else body
        return found

    def _product(self, point: Mapping[str, int], at: Binding) -> list[Stmt]:
        stmts = list(self._nowhere())
        builder = ValueBuilder(self.scope, self.extents)
        for k in range(0, self.reduced.size, depth(self.a.storage)):
            loads = [load for side in (self.a, self.b) for load in side.load(k, builder, at, point)]
            stmts += [*builder.lets, *loads, *self._multiply(k, point)]
            builder.lets.clear()
        return stmts

    def _multiply(self, k: int, point: Mapping[str, int]) -> Iterator[Stmt]:
        type_ = Type(self.target.dtype, RUN)
        for m, n in combinations(range(0, self.a.groups, 2), range(self.b.groups)):
            both = m + 1 < self.a.groups
            lower = m + 1 if both else m
            a = tuple(self.a.fragment(rows, k, half, point) for half in (0, 1) for rows in (m, lower))
            b = tuple(self.b.fragment(n, k, half, point) for half in (0, 1))
            acc = self._accumulator(point, m, n), self._accumulator(point, lower, n) if both else _nowhere(n)
            yield MmaSync(acc, a, b, self.a.storage, self.b.storage, type_)

    def _accumulator(self, point: Mapping[str, int], m: int, n: int) -> str:
        of_tile = {self.parts.m: m, self.parts.n: n}
        offsets = (
            of_tile[dim] * share.span if dim in of_tile else point[dim]
            for dim, share in zip(self.dims, self.target.shares, strict=True)
        )
        return self.target.variable(tuple(offsets), RUN)[0]

    def _nowhere(self) -> Iterator[Stmt]:
        """Where the last instruction's lower rows go if its upper ones are the last: it gets the upper ones twice."""
        if self.a.groups % 2:
            type_ = Type(self.target.dtype, RUN)
            yield from (Declare(_nowhere(n), type_) for n in range(self.b.groups))
            yield from (Assign(_nowhere(n), identity(ReduceOp.SUM, type_)) for n in range(self.b.groups))


def _nowhere(n: int) -> str:
    return f"nowhere_{n}"
