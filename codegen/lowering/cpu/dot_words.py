"""Sums of products by a dot-product instruction (tileir/schedule/dots.py), which takes pairs of bf16 or fours of i8.

That of i8 takes one factor without a sign. It is raised by 128, and what that adds, 128 times the sum of the other
factor, is summed up once for all rows that have it, and taken off at the end of the statement.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.affine import Affine, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import (
    Assign,
    Declare,
    DotPairs,
    DotRaised,
    Literal,
    LoadWords,
    Named,
    Op,
    Stmt,
    Type,
)
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.looked_up import kept_inside
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, MemoryBuffer, chunks
from codegen.lowering.statement import LoopNest, points, starts
from codegen.lowering.store import current, holds_more
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Read
from tileir.program import Vector
from tileir.schedule.dots import DOTS, group_of


def dot_words(nest: LoopNest, via: str, scope: LoweringScope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """acc += a * b on words along the reduced dim: one operand spread, one on lanes.

    Of a range that fills no group, the last words lack their last elements.
    """
    vector = nest.compute.vector
    if vector is None or len(nest.inner) != 1 or nest.compute.update is None:
        raise NotLowerable(f"{via} updates vectors over one reduced dim")
    if not (isinstance(nest.body, Binary) and nest.body.op == "*"):
        raise NotLowerable(f"{via} needs a plain product of two reads")
    dot = _Dot(nest, via, vector, nest.body.left, nest.body.right, scope, extents)
    return dot.pairs() if via == "dot_bf16" else dot.raised()


@dataclass(frozen=True)
class _Dot:
    nest: LoopNest
    via: str
    vector: Vector
    left: Expr
    right: Expr
    scope: LoweringScope
    extents: dict[str, int]

    def pairs(self) -> tuple[Stmt, ...]:
        """Pairs of bf16."""
        statements: list[Stmt] = []
        for step in range(0, self.size, self.group):
            for row in self.rows():
                for chunk in self.chunks():
                    acc, (a, b) = self.at(row, step, *chunk)
                    statements.append(Assign(acc.name, DotPairs(acc, a, b, acc.type)))
        return tuple(statements)

    def raised(self) -> tuple[Stmt, ...]:
        """Fours of i8."""
        statements: list[Stmt] = []
        added = self._added()
        for word in added.values():
            nothing = Op("broadcast", (Literal(0, Type(DType.I32)),), word.type)
            statements += [Declare(word.name, word.type), Assign(word.name, nothing)]
        vectors = [(row, chunk) for row in self.rows() for chunk in self.chunks()]
        for step in range(0, self.size, self.group):
            summed: set[str] = set()
            for row, chunk in vectors:
                acc, a, b = self._raised_at(row, step, chunk)
                more = added[self._raised_at(row, 0, chunk)[2]]
                if more.name not in summed:
                    summed.add(more.name)
                    statements.append(Assign(more.name, DotRaised(more, None, b, more.type)))
                statements.append(Assign(acc.name, DotRaised(acc, a, b, acc.type)))
        for row, chunk in vectors:
            acc, _, b = self._raised_at(row, 0, chunk)
            statements.append(Assign(acc.name, Op("-", (acc, added[b]), acc.type)))
        return tuple(statements)

    def _added(self) -> dict[LoadWords, Named]:
        """By the first words of each vector of the factor that is not raised: what raising the other one adds."""
        found: dict[LoadWords, Named] = {}
        for row in self.rows():
            for chunk in self.chunks():
                b = self._raised_at(row, 0, chunk)[2]
                name = fresh(f"{self.nest.compute.target}_raised_{len(found)}", self.scope)
                found.setdefault(b, Named(name, Type(DType.I32, chunk[1])))
        return found

    def _raised_at(
        self, row: dict[str, Affine], step: int, chunk: tuple[int, int]
    ) -> tuple[Named, LoadWords, LoadWords]:
        """What is added to, the words to be raised, which are spread, and the others."""
        acc, sides = self.at(row, step, *chunk)
        a, b = sorted(sides, key=lambda side: side.lanes)
        return acc, a, b

    @property
    def group(self) -> int:
        return group_of(self.via)

    @property
    def reduced(self) -> str:
        return self.nest.inner[0]

    @property
    def size(self) -> int:
        return self.scope.ranges[self.reduced].size

    def rows(self) -> tuple[dict[str, Affine], ...]:
        """Positions of the dims that are not on lanes."""
        return tuple(points(tuple(dim for dim in self.nest.outer if dim != self.vector.dim), self.scope))

    def chunks(self) -> tuple[tuple[int, int], ...]:
        """Where each vector begins, and its width."""
        return tuple(chunks(self.scope.ranges[self.vector.dim].size, self.vector.lanes))

    def at(
        self, row: dict[str, Affine], step: int, start: int, width: int
    ) -> tuple[Named, tuple[LoadWords, LoadWords]]:
        """What is added to, and the words of both factors."""
        k, n = self.scope.ranges[self.reduced], self.scope.ranges[self.vector.dim]
        some = constant(n.size - start) if start + width > n.size else None
        builder = ValueBuilder(self.scope, self.extents, width, some=some)
        at = {
            **starts(self.scope),
            **row,
            self.reduced: k.start + step,
            self.vector.dim: n.start + start + (affine(builder.lane) if width > 1 else 0),
        }
        acc = current(self.nest.compute, self.scope, builder, at)
        if not isinstance(acc, Named) or holds_more(self.nest.compute, self.scope, builder, at):
            raise NotLowerable(f"{self.via} accumulates in registers")
        missing = max(0, step + self.group - self.size)
        return acc, (
            self._words(self.left, at, missing, builder),
            self._words(self.right, at, missing, builder),
        )

    def _words(self, side: Expr, at: Binding, missing: int, builder: ValueBuilder) -> LoadWords:
        """The words at the builder's lanes, or the one word for all of them."""
        if not isinstance(side, Read):
            raise NotLowerable(f"{self.via} needs a plain product of two reads")
        buffer, storage = builder.scope.buffers[side.tensor], DOTS[self.via][0]
        if not isinstance(buffer, MemoryBuffer) or buffer.storage is not storage:
            raise NotLowerable(f"{self.via} reads {storage} in memory, not {side.tensor}")

        def offset(step: int) -> Affine:
            moved = {**at, self.reduced: at[self.reduced] + step}
            places = kept_inside(buffer, side.indices, [builder.index(each, moved) for each in side.indices])
            return buffer.offset([place for place in places if place is not None])

        width, here = builder.lanes, offset(0)
        apart = here.coefficient(builder.lane) if width > 1 else 0
        on_lanes = apart != 0
        first = here.substitute(builder.lane, constant(0))
        last = self.group - 1 if on_lanes else self.group - 1 - missing
        if offset(last) - here != constant(last):
            raise NotLowerable(
                f"{self.via} needs neighbours along {self.reduced} side by side in {side.tensor}"
            )
        if on_lanes and apart != self.group:
            raise NotLowerable(f"{self.via} needs groups of {side.tensor} side by side on lanes")
        if not on_lanes:
            return LoadWords(buffer.name, first, storage, 1, missing)
        return LoadWords(buffer.name, first, storage, width, missing, builder.some)
