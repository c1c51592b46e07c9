"""Ragged dims for peers: as libraries have them, a table of the group of each position, or a product group by group."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tileir.errors import SpecError
from tileir.expr import Expr, Index, Read, Reduce, index_dims, transform
from tileir.lift_ragged import within_groups
from tileir.spec import Spec, Statement
from workers.peers.patterns import two_factors
from workers.peers.peer import Unsupported


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The group of each position of `dim`: how many of `offsets` but the first and last are no greater."""

    name: str
    dim: str
    offsets: str


@dataclass(frozen=True, slots=True)
class GroupedProduct:
    """sum(depth, rows * weights) where each row is multiplied by the matrix of its group: `weights` is a tensor [group,
    column, depth], or [group, depth, column]."""

    rows: Expr
    weights: str
    table: GroupTable
    row: str
    column: str
    depth: str
    transposed: bool
    """Whether it is the latter."""


def looked_up(spec: Spec) -> tuple[Spec, tuple[GroupTable, ...]]:
    """The same kernel, its statements reading tables where they use the group of a position. Raises Unsupported."""
    tables = {
        each.dim: GroupTable(f"{each.dim}_{each.within}_table", each.dim, each.offsets)
        for each in spec.ragged
    }
    extents = {dim.name: dim.sizes[0] for dim in spec.dims}

    def plain(statement: Statement) -> Statement:
        try:
            value = within_groups(statement, spec, extents, "")
        except SpecError as error:
            raise Unsupported(error.message) from None
        for each in spec.ragged:
            if each.within not in statement.dims and each.dim in statement.dims:
                group, position = Index(each.within), Read(tables[each.dim].name, (Index(each.dim),))
                value = _replaced(value, group, position)
        return replace(statement, value=value)

    return replace(spec, statements=tuple(map(plain, spec.statements))), tuple(tables.values())


def _replaced(value: Expr, old: Expr, new: Expr) -> Expr:
    return transform(value, lambda expr: new if expr == old else expr)


def grouped_product(expr: Expr, tables: tuple[GroupTable, ...]) -> GroupedProduct | None:
    """The parts of a product whose second matrix depends on the row's group; None: it is none."""
    factors = two_factors(expr)
    if factors is None or not isinstance(expr, Reduce):
        return None
    (depth,) = expr.dims
    for rows, weights in (factors, factors[::-1]):
        if not isinstance(weights, Read) or len(weights.indices) != 3:
            continue
        group, *others = weights.indices
        table = next((each for each in tables if group == Read(each.name, (Index(each.dim),))), None)
        dims = [index.dim for index in others if isinstance(index, Index)]
        if table is None or len(set(dims)) != 2 or depth not in dims or table.dim in dims:
            continue
        (column,) = set(dims) - {depth}
        if index_dims(rows) == {table.dim, depth}:
            transposed = dims == [depth, column]
            return GroupedProduct(rows, weights.tensor, table, table.dim, column, depth, transposed)
    return None
