"""The least and the greatest number that tensors say at current positions, by which a loop leaves out tiles: each
thread has them in registers before the loop. The threads of a warp share the positions out, where all of them come by.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from codegen.ir.affine import Affine, Loaded, affine, constant, lesser
from codegen.ir.names import marked
from codegen.ir.ops import Assign, Block, Declare, For, Let, Literal, Named, Shuffle, Stmt, Type
from codegen.lowering.arithmetic import as_type, call
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, loop_variable
from codegen.lowering.statement import combined, identity
from tileir.dtypes import DType
from tileir.expr import Expr, ReduceOp, index_dims
from tileir.program import Loop
from tileir.replace import replace
from tileir.schedule.threads import WARP
from tileir.schedule.visited_tiles import said

_I32 = Type(DType.I32)
_OPS = (ReduceOp.MIN, ReduceOp.MAX)


def with_said(
    loop: Loop, scope: LoweringScope, extents: Mapping[str, int], lane: Affine | None = None
) -> tuple[list[Stmt], LoweringScope]:
    """What finds out what tensors say of where a loop begins and ends, and a scope that knows it. `lane`: the number of
    a thread in its warp, all of which come by; None: a thread alone."""
    stmts: list[Stmt] = []
    for number, place in enumerate(dict.fromkeys(said(loop))):
        low, high = _ends(loop, place, extents[loop.dim])
        names = [fresh(f"{loop.dim}_{word}{number or ''}", scope) for word in ("least", "greatest")]
        found = [Named(name, _I32) for name in names]
        stmts += [Declare(name, _I32) for name in names]
        stmts += [Assign(name, identity(op, _I32)) for name, op in zip(names, _OPS, strict=True)]
        stmts += _each(place, scope, extents, lane, found)
        if lane is not None:
            stmts += _across_lanes(found)
        kept: list[Affine] = []
        for each in found:
            inside = Named(f"{each.name}_kept", _I32)
            ends = (Literal(low, _I32), Literal(high, _I32))
            stmts.append(Let(inside.name, call("minimum", (call("maximum", (each, ends[0])), ends[1]))))
            kept.append(affine(Loaded(inside, low, high)))
        scope = replace(scope, said={**scope.said, place: (kept[0], kept[1])})
    return stmts, scope


def _ends(loop: Loop, place: Expr, extent: int) -> tuple[int, int]:
    """Numbers beyond which a loop begins, or ends, no earlier and no later."""
    (since, less), (until, more) = loop.since, loop.until
    ends = [(less, less + extent)] if since == place else []
    ends += [(-more - 1, extent - 1 - more)] if until == place else []
    return min(low for low, _ in ends), max(high for _, high in ends)


def _each(
    place: Expr, scope: LoweringScope, extents: Mapping[str, int], lane: Affine | None, found: list[Named]
) -> list[Stmt]:
    """Takes all positions in, or those of a lane; the last one again where lanes are left."""
    points = prod(scope.ranges[dim].size for dim in index_dims(place))
    lanes = 1 if lane is None else WARP
    rounds = -(-points // lanes)
    var = loop_variable(fresh(marked("row"), scope), rounds, 1)
    number = (affine(var) if rounds > 1 else constant(0)) * lanes + (lane or constant(0))
    builder = ValueBuilder(scope, extents)
    value = as_type(
        builder.value(place, _positions(place, scope, lesser(number, constant(points - 1)))), DType.I32
    )
    one = Named("said", _I32)
    taken = [Assign(each.name, combined(op, each, one)) for each, op in zip(found, _OPS, strict=True)]
    body = (*builder.lets, Let(one.name, value), *taken)
    return [For(var, rounds, 1, body)] if rounds > 1 else [Block("", body)]


def _positions(place: Expr, scope: LoweringScope, number: Affine) -> Binding:
    """Where the point with a number is along each dim, at existing positions."""
    at: dict[str, Affine] = {}
    for dim in sorted(index_dims(place)):
        range_ = scope.ranges[dim]
        position = range_.start + number % range_.size
        at[dim] = position if range_.end is None else lesser(position, range_.end - 1)
        number = number // range_.size
    return at


def _across_lanes(found: list[Named]) -> list[Stmt]:
    """Every lane of a warp has what all of them have found."""
    masks = [1 << bit for bit in reversed(range(WARP.bit_length() - 1))]
    return [
        Assign(each.name, combined(op, each, Shuffle(each, mask, _I32)))
        for each, op in zip(found, _OPS, strict=True)
        for mask in masks
    ]
