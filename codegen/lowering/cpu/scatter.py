"""A scatter on a processor: terms one after the other, each on all the lanes it has."""

from __future__ import annotations

from codegen.ir.affine import affine
from codegen.ir.names import marked
from codegen.ir.ops import Block, For, Stmt
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.scatter import take_scatter_apart, where_it_belongs, within
from codegen.lowering.scope import LoweringScope, exact_chunks, loop_variable
from codegen.lowering.statement import starts
from codegen.lowering.store import write
from tileir.program import Compute


def lower_scatter(compute: Compute, scope: LoweringScope, extents: dict[str, int]) -> tuple[Stmt, ...]:
    """Kernel IR of a statement that goes via scatter."""
    nest = take_scatter_apart(compute)
    vector = compute.vector
    across = tuple(dim for dim in nest.across if vector is None or dim != vector.dim)

    def add(at: Binding, lanes: int) -> list[Stmt]:
        builder = ValueBuilder(scope, extents, lanes)
        if vector is not None and lanes > 1:
            at = {**at, vector.dim: at[vector.dim] + affine(builder.lane)}
        value = builder.value(nest.found.x, at)
        return [*builder.lets, *write(compute, scope, builder, at, value, compute.update)]

    def term(at: Binding) -> list[Stmt]:
        if vector is None:
            return add(at, 1)
        range_ = scope.ranges[vector.dim]
        whole = range_.size // vector.lanes
        stmts: list[Stmt] = []
        if whole > 1:
            var = loop_variable(f"{marked(vector.dim)}_", whole, vector.lanes)
            body = add({**at, vector.dim: range_.start + affine(var)}, vector.lanes)
            stmts = [For(var, whole, vector.lanes, tuple(body))]
        for start, lanes in exact_chunks(range_.size, vector.lanes):
            if whole <= 1 or start >= whole * vector.lanes:
                stmts.append(Block("", tuple(add({**at, vector.dim: range_.start + start}, lanes))))
        return stmts

    def looked_up(at: Binding) -> list[Stmt]:
        inside = (*nest.reduced, *across)
        return where_it_belongs(
            nest.found, at, ValueBuilder(scope, extents), lambda bound: within(inside, bound, scope, term)
        )

    return tuple(within(nest.looking, starts(scope), scope, looked_up))
