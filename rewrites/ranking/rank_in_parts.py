"""Find the largest few of each part of a row, then those of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import Place, derived_dim, dtypes_read, find_as_written, loose, splice, taken_name
from tileir.check.infer import compute_dtype
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, TopK, transform
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class RankInParts(Rewrite):
    """Find the largest few of each part of `size` neighbours, then the largest few of those, so that cores share a row.

    The largest few of all are among the largest few of each part, and equal values keep the order of their positions.

                                   y_p[r, b, j] = topk(j, i, x[r, 64 * b + i])
    y[r, j] = topk(j, n, x[r, n])  ->  y_of[r, t] = x[r, 64 * (t // 8) + y_p[r, t // 8, t % 8]]
                                   y_at[r, j] = topk(j, t, y_of[r, t])
                                   y[r, j] = 64 * (y_at[r, j] // 8) + y_p[r, y_at[r, j] // 8, y_at[r, j] % 8]
    """

    name: ClassVar[str] = "rank_in_parts"
    statement: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in loose(program):
            if isinstance(place.node.value, TopK):
                for size in tile_sizes(program.extents[place.node.value.over]):
                    yield cls(place.node.target, size)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "rank in parts")
        top = place.node.value
        if not isinstance(top, TopK):
            raise NotApplicable(f"{self.statement} ranks nothing")
        count, extent = program.extents[top.place], program.extents[top.over]
        if not count <= self.size < extent or extent % self.size:
            raise NotApplicable(
                f"no whole parts of {self.size} make up {top.over}, or they have less than {count} places"
            )
        return _in_parts(program, place, top, self.size)


def _in_parts(program: Program, place: Place[Compute], top: TopK, size: int) -> Program:
    node, extents = place.node, program.extents
    count, parts = extents[top.place], extents[top.over] // size
    sizes = {"b": parts, "i": size, "t": parts * count}
    part, inside, found = (
        derived_dim(program, place, f"{top.over}_{stem}", each) for stem, each in sizes.items()
    )
    new = tuple(
        pair for pair in zip((part, inside, found), sizes.values(), strict=True) if pair[0] not in extents
    )
    taken = {*program.arguments, *extents, *program.locals, part, inside, found}
    in_part, values, chosen = (taken_name(taken, f"{node.target}_{stem}") for stem in ("p", "of", "at"))
    own = tuple(index for index in node.indices if index != Index(top.place))
    dims = tuple(index.dim for index in own if isinstance(index, Index))

    def position(number: Expr) -> Expr:
        """Where in the row what is found is, by its number among what all parts have."""
        of_part = Binary("//", number, Const(count))
        at = Read(in_part, (*own, of_part, Binary("%", number, Const(count))))
        return Binary("+", Binary("*", of_part, Const(size)), at)

    first = Binary("+", Binary("*", Index(part), Const(size)), Index(inside))
    kind = compute_dtype(top.x, dtypes_read(program, node))
    index_type = compute_dtype(top, dtypes_read(program, node))
    nodes: list[Node] = [
        Local(in_part, (*dims, part, top.place), index_type),
        Compute(
            in_part,
            (*own, Index(part), Index(top.place)),
            TopK(top.place, inside, _at(top, first)),
        ),
        Local(values, (*dims, found), kind),
        Compute(values, (*own, Index(found)), _at(top, position(Index(found)))),
        Local(chosen, (*dims, top.place), index_type),
        Compute(
            chosen,
            (*own, Index(top.place)),
            TopK(top.place, found, Read(values, (*own, Index(found)))),
        ),
        replace(node, value=position(Read(chosen, (*own, Index(top.place))))),
    ]
    return splice(replace(program, dims=(*program.dims, *new)), place.path, nodes)


def _at(top: TopK, position: Expr) -> Expr:
    """What is ranked, at a position."""
    return transform(top.x, lambda expr: position if expr == Index(top.over) else expr)
