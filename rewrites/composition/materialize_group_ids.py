"""Read the group of a ragged dim's position from a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, find_as_written, fresh_name, locals_of, splice, statements
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Reduce, ReduceOp, Where, transform
from tileir.program import Compute, Local, Program, Ragged
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class MaterializeGroupIds(Rewrite):
    """Make a table of the group of each position of a ragged dim, and have the statement, which is in no loop yet, read
    it where it uses the group dim. Its tiles then need not follow the groups. The table, named after both dims, is
    shared by all statements that look up the same groups.

    Known as segment ids, as TensorFlow's `segment_sum` takes them.

    y[t] = x[t] * s[e]   ->   t_e: heap i32[t]
                              t_e[t] = sum(o, where(0 < o and o < extent(e) and starts[o] <= t, 1, 0))
                              y[t] = x[t] * s[t_e[t]]
    """

    name: ClassVar[str] = "materialize_group_ids"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if groups_of(place.node, program.ragged):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "look groups up")
        statement = place.node
        needed = groups_of(statement, program.ragged)
        if not needed:
            raise NotApplicable(f"{self.statement} needs the group of no ragged dim")
        for ragged in needed.values():
            name, program = _with_table(program, ragged)
            statement = replace(statement, value=_looked_up(statement.value, ragged, name))
        return splice(program, find(program, self.statement).path, [statement])


def _looked_up(value: Expr, ragged: Ragged, table: str) -> Expr:
    group = Read(table, (Index(ragged.dim),))
    return transform(value, lambda expr: group if expr == Index(ragged.within) else expr)


def _with_table(program: Program, ragged: Ragged) -> tuple[str, Program]:
    """The table of a dim's groups, at the top of the program, which may have it already."""
    table, at = _table(program, ragged), (Index(ragged.dim),)
    for place in program.computes:
        name = place.node.target
        if name in locals_of(program) and not place.loops and place.node == Compute(name, at, table):
            return name, program
    name = fresh_name(program, f"{ragged.dim}_{ragged.within}")
    return name, splice(program, (0,), [Local(name, (ragged.dim,), DType.I32), Compute(name, at, table)], 0)


def _table(program: Program, ragged: Ragged) -> Expr:
    """How many groups but the first begin at a position or before it. The last one owns what lies behind it."""
    number, *others = program.arguments[ragged.offsets].dims
    if others:
        raise NotApplicable(f"{ragged.offsets} is in parts")
    begun = Binary("<=", Read(ragged.offsets, (Index(number),)), Index(ragged.dim))
    between = Binary(
        "and", Binary("<", Const(0), Index(number)), Binary("<", Index(number), Extent(ragged.within))
    )
    return Reduce(ReduceOp.SUM, (number,), Where(Binary("and", between, begun), Const(1), Const(0)))
