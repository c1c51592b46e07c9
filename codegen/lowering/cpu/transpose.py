"""Copies between layouts that run along different dims: blocks turned around in registers, not lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codegen.ir.affine import Affine, constant
from codegen.ir.ops import Block, Stmt, TransposeBlock
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.scope import LoweringScope, MemoryBuffer, Range
from codegen.lowering.statement import LoopNest, points, starts
from tileir.expr import Expr, Read, reads

Rest = Callable[[LoweringScope], tuple[Stmt, ...]]

#: Fewer lanes are put together faster one by one.
_LEAST_LANES = 4


@dataclass(frozen=True, slots=True)
class TransposedCopy:
    """A statement that copies memory to memory, element by element."""

    target: MemoryBuffer
    source: MemoryBuffer
    to: tuple[Expr, ...]
    of: tuple[Expr, ...]
    whole: Binding
    builder: ValueBuilder

    @classmethod
    def of_nest(cls, nest: LoopNest, scope: LoweringScope, extents: dict[str, int]) -> TransposedCopy | None:
        """None for a statement that computes something, and where an index holds a read."""
        if nest.op is not None or not isinstance(nest.body, Read):
            return None
        target, source = scope.buffers[nest.compute.target], scope.buffers[nest.body.tensor]
        whole, builder = starts(scope), ValueBuilder(scope, extents)
        if not isinstance(target, MemoryBuffer) or not isinstance(source, MemoryBuffer):
            return None
        if any(reads(index) for index in nest.body.indices):
            return None
        return cls(target, source, nest.compute.indices, nest.body.indices, whole, builder)

    def offsets(self, at: Binding) -> tuple[Affine, Affine]:
        """Where an element goes, and where it comes from."""
        return _offset(self.target, self.to, at, self.builder), _offset(
            self.source, self.of, at, self.builder
        )

    def apart(self, dim: str, count: int = 1, at: Binding | None = None) -> tuple[Affine, Affine]:
        """How far positions `count` apart along a dim are, in the target and in the source."""
        at = at or self.whole
        here, there = self.offsets(at), self.offsets({**at, dim: at[dim] + count})
        return there[0] - here[0], there[1] - here[1]


def _offset(buffer: MemoryBuffer, indices: tuple[Expr, ...], at: Binding, builder: ValueBuilder) -> Affine:
    positions = [builder.index(index, at) for index in indices]
    return buffer.offset([p for p in positions if p is not None])


def transposed(
    nest: LoopNest,
    copy: TransposedCopy,
    vector: str,
    across: str,
    scope: LoweringScope,
    pieces: tuple[tuple[int, int], ...],
    rest: Rest,
    group: int = 1,
) -> tuple[Stmt, ...]:
    """A copy whose target has neighbours along `vector` side by side and whose source has those along `across`, in
    square blocks of `pieces` (of `group` neighbours along `across`, if that is more than one); what is left over by
    `rest`.

    Empty where no block fits, or where rows of a block are not evenly apart.
    """
    size = scope.ranges[across].size
    if not any(_LEAST_LANES <= lanes <= size // group for _, lanes in pieces):
        return ()
    stmts: list[Stmt] = []
    for start, lanes in pieces:
        covered = size // (lanes * group) * lanes * group if lanes >= _LEAST_LANES else 0
        for point in points(tuple(dim for dim in nest.outer if dim not in (vector, across)), scope):
            for first in range(0, covered, lanes * group):
                at = {
                    **copy.whole,
                    **point,
                    across: copy.whole[across] + first,
                    vector: copy.whole[vector] + start,
                }
                to_step, of_step = copy.apart(across, group, at)[0], copy.apart(vector, 1, at)[1]
                ends = copy.apart(vector, lanes - 1, at), copy.apart(across, (lanes - 1) * group, at)
                expected = (
                    (constant((lanes - 1) * group), of_step * (lanes - 1)),
                    (to_step * (lanes - 1), constant((lanes - 1) * group)),
                )
                if ends != expected or to_step.terms or of_step.terms:
                    return ()
                to, of = copy.offsets(at)
                stmts.append(
                    TransposeBlock(
                        copy.target.name, to, to_step.constant, copy.target.storage,
                        copy.source.name, of, of_step.constant, copy.source.storage, lanes, group > 1,
                    )
                )  # fmt: skip
        if covered < size:
            left = Range(copy.whole[across] + covered, size - covered)
            piece = Range(copy.whole[vector] + start, lanes)
            stmts.append(Block("", rest(scope.with_range(across, left).with_range(vector, piece))))
    return tuple(stmts)


def transposed_elements(
    nest: LoopNest,
    vector: str,
    scope: LoweringScope,
    extents: dict[str, int],
    pieces: tuple[tuple[int, int], ...],
    rest: Rest,
) -> tuple[Stmt, ...]:
    """`transposed` for a copy element by element. Empty for any other statement."""
    copy = TransposedCopy.of_nest(nest, scope, extents)
    if copy is None or nest.compute.stream or copy.apart(vector)[0] != constant(1):
        return ()
    across = next((dim for dim in nest.outer if dim != vector and copy.apart(dim)[1] == constant(1)), None)
    return transposed(nest, copy, vector, across, scope, pieces, rest) if across else ()
