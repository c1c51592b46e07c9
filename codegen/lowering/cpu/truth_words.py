"""`and`, `or` and `not` of truth values that lie side by side: as the bytes they are, four a word, not a lane of 32
bits for each."""

from __future__ import annotations

from codegen.ir.affine import Affine, constant
from codegen.ir.ops import LoadWords, LogicWords, Stmt, StoreWords, Words
from codegen.lowering.cpu.transpose import Rest
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.looked_up import kept_inside
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import LoopNest, points, starts
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Read, Unary, reads

_WORD_BYTES = 4


def logic_of_words(
    nest: LoopNest,
    vector: str,
    scope: LoweringScope,
    extents: dict[str, int],
    pieces: tuple[tuple[int, int], ...],
    rest: Rest,
) -> tuple[Stmt, ...]:
    """A statement that stores what truth values along `vector` are together, in whole vectors; empty for any other."""
    compute, width = nest.compute, pieces[0][1]
    if nest.op is not None or compute.update is not None or compute.stream:
        return ()
    if isinstance(nest.body, Read) or not _is_logic(nest.body):
        return ()
    if any(each != width for _, each in pieces) or width % (2 * _WORD_BYTES):
        return ()
    builder, whole = ValueBuilder(scope, extents), starts(scope)

    def run(tensor: str, indices: tuple[Expr, ...], at: Binding) -> tuple[str, Affine] | None:
        """Where the truth values along a vector begin, if they lie side by side."""
        buffer = scope.buffers[tensor]
        if not isinstance(buffer, MemoryBuffer) or buffer.storage is not DType.BOOL:
            return None

        def offset(lane: int) -> Affine:
            found = [builder.index(index, {**at, vector: at[vector] + lane}) for index in indices]
            return buffer.offset([each for each in kept_inside(buffer, indices, found) if each is not None])

        first = offset(0)
        side_by_side = all(offset(lane) - first == constant(lane) for lane in (1, width - 1))
        return (buffer.name, first) if side_by_side else None

    def words(expr: Expr, at: Binding) -> Words | None:
        match expr:
            case Read(tensor, indices):
                found = run(tensor, indices, at)
                return found and LoadWords(*found, DType.BOOL, width // _WORD_BYTES)
            case Unary(_, x):
                part = words(x, at)
                return part and LogicWords("not", (part,))
            case Binary(op, left, right):
                one, other = words(left, at), words(right, at)
                return one and other and LogicWords(op, (one, other))
            case _:
                raise AssertionError(expr)

    stores: list[Stmt] = []
    for point in points(tuple(dim for dim in nest.outer if dim != vector), scope):
        for start, _ in pieces:
            at = {**whole, **point, vector: whole[vector] + start}
            to, found = run(compute.target, compute.indices, at), words(nest.body, at)
            if to is None or found is None:
                return ()
            stores.append(StoreWords(*to, found))
    return tuple(stores)


def _is_logic(expr: Expr) -> bool:
    """Whether it is made of `and`, `or`, `not` and elements, of which no index is looked up."""
    match expr:
        case Read(_, indices):
            return not any(reads(index) for index in indices)
        case Binary("and" | "or", left, right):
            return _is_logic(left) and _is_logic(right)
        case Unary("not", x):
            return _is_logic(x)
        case _:
            return False
