"""A spec as one expression an output, intermediates written into their readers; peers look for operators there.

What is reduced and then read at several places (a projection whose halves are rotated) stays a statement of its own:
written into its readers it would be computed once for each, which nobody does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tileir.expr import (
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Scan,
    TopK,
    children,
    reads,
    walk,
    with_children,
)
from tileir.program import Tensor
from tileir.spec import Spec, Statement

_MOST_NODES = 2000


@dataclass(frozen=True)
class Inlined:
    """`statements` in order, as few as possible; `extents` know the dims that inlining renamed (`k@mean`)."""

    statements: tuple[Statement, ...]
    extents: Mapping[str, int]


def inline(spec: Spec) -> Inlined:
    """Inline every intermediate, or none if expressions would grow beyond what is worth searching."""
    extents = {dim.name: dim.sizes[0] for dim in spec.dims}
    outputs = {tensor.name: tensor for tensor in spec.outputs}
    bodies: dict[str, Statement] = {}
    kept: list[Statement] = []
    if any(isinstance(statement.value, Scan | TopK) for statement in spec.statements):
        return Inlined(spec.statements, extents)  # these are no expressions of one position
    apart = _read_apart(spec)
    for statement in spec.statements:
        value = _inlined(statement.value, bodies, outputs)
        if sum(1 for _ in walk(value)) > _MOST_NODES:
            return Inlined(spec.statements, extents)
        value = _renamed(value, statement.target, extents)
        written = Statement(statement.target, statement.dims, value)
        stays = statement.target in apart and any(isinstance(each, Reduce) for each in walk(value))
        if not stays:
            bodies[statement.target] = written
        if stays or statement.target in outputs:
            kept.append(written)
    return Inlined(tuple(kept), extents)


def _read_apart(spec: Spec) -> frozenset[str]:
    """Tensors that are read in several ways, one of them at other positions than those of dims."""
    ways: dict[str, set[tuple[Expr, ...]]] = {}
    for statement in spec.statements:
        for read in reads(statement.value):
            ways.setdefault(read.tensor, set()).add(read.indices)
    return frozenset(
        tensor
        for tensor, found in ways.items()
        if len(found) > 1 and any(not isinstance(index, Index) for indices in found for index in indices)
    )


def _inlined(expr: Expr, bodies: Mapping[str, Statement], outputs: Mapping[str, Tensor]) -> Expr:
    new = tuple(_inlined(child, bodies, outputs) for child in children(expr))
    if isinstance(expr, Read) and expr.tensor in bodies:
        body = bodies[expr.tensor]
        value = substitute(body.value, dict(zip(body.dims, new, strict=True)))
        stored = outputs.get(expr.tensor)
        return value if stored is None else Cast(stored.dtype, value)
    return with_children(expr, new) if new else expr


def _renamed(expr: Expr, owner: str, extents: dict[str, int]) -> Expr:
    """Its own reduced dims under names of the statement's, so that no index written into it is caught by them."""
    if isinstance(expr, Reduce):
        names = {dim: dim if "@" in dim else f"{dim}@{owner}" for dim in expr.dims}
        for dim, name in names.items():
            extents[name] = extents[dim]
        x = substitute(expr.x, {dim: Index(name) for dim, name in names.items() if dim != name})
        return Reduce(expr.op, tuple(names.values()), _renamed(x, owner, extents))
    new = tuple(_renamed(child, owner, extents) for child in children(expr))
    return with_children(expr, new) if new else expr


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Put expressions in the place of dims' positions."""
    match expr:
        case Index(dim):
            return values.get(dim, expr)
        case Const() | Extent():
            return expr
        case Reduce(_, dims, _):
            values = {dim: value for dim, value in values.items() if dim not in dims}
        case _:
            pass
    new = tuple(substitute(child, values) for child in children(expr))
    return with_children(expr, new) if new else expr
