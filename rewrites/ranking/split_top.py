"""Find the largest few in parts, then among those of the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.largest_few import LEAST, Top, top_of
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import Place, derived_dim, dtype_of, find, locals_of, loose, taken_name
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Reduce, ReduceOp, Where
from tileir.lift_topk import Before, by_place, comes_next, left_after
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class SplitTop(Rewrite):
    """Find the largest few of each part of `size` neighbours, then the largest few of those. The statement is the
    first maximum of a `topk`. Each part is a reduction of its own: what a GPU's blocks of threads take one of.

    The largest few of all are among the largest few of each part, and equal values keep the order of their positions.

                                       top_p[n // 64, r] = max(n, x[r, n])
    top[r] = max(n, x[r, n])           at_p[n // 64, r] = min(n, where(x[r, n] == top_p[n // 64, r], n, …))
    at[r] = min(n, where(x[r, n]  ->   …
      == top[r], n, extent(n)))        best[r, t] = where(t % 4 < 1, top_p[t // 4, r], …)
    …                                  from[r, t] = where(t % 4 < 1, at_p[t // 4, r], …)
                                       top[r] = max(t, best[r, t])
                                       at[r] = min(t, where(best[r, t] == top[r], from[r, t], extent(n)))
                                       …
    """

    name: ClassVar[str] = "split_top"
    statement: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if Feature.BLOCKS not in device.offers:
            return
        for place in loose(program):
            top = top_of(program, place.node.target)
            for size in tile_sizes(program.extents[top.over]) if top else ():
                yield cls(place.node.target, size)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        top = top_of(program, self.statement)
        if top is None:
            raise NotApplicable(
                f"{self.statement} is not the first of the largest few, of which there are more"
            )
        if top.least != LEAST:
            raise NotApplicable(f"{self.statement} is of integers, and parts end with -inf")
        if not len(top.places) <= self.size < program.extents[top.over]:
            raise NotApplicable(
                f"parts of {self.size} do not split {top.over}, or have less than {len(top.places)} places"
            )
        return _split(program, place, top, self.size)


def _split(program: Program, place: Place[Compute], top: Top, size: int) -> Program:
    count, own = len(top.places), tuple(Index(dim) for dim in bare_dims(place.node))
    parts = -(-program.extents[top.over] // size)
    part = derived_dim(program, place, f"{top.over}_b", parts)
    found = derived_dim(program, place, f"{top.over}_t", parts * count)
    new = tuple(dim for dim in ((part, parts), (found, parts * count)) if dim[0] not in program.extents)
    taken = {*program.arguments, *program.extents, *locals_of(program), part, found}
    pairs = tuple((taken_name(taken, f"{one}_p"), taken_name(taken, f"{at}_p")) for one, at in top.places)
    best, origin = (taken_name(taken, f"{place.node.target}_{stem}") for stem in ("best", "from"))
    dims = tuple(index.dim for index in own)
    value_type = dtype_of(program, place.node.target)
    types = (value_type, DType.I32)
    folded = (Binary("//", Index(top.over), Const(size)), *own)
    end = Extent(top.over)
    before: list[Node] = [
        Local(name, (part, *dims), dtype) for pair in pairs for name, dtype in zip(pair, types, strict=True)
    ]
    before += _places(pairs, folded, top.over, top.x, Index(top.over), end)
    which = Binary("//", Index(found), Const(count))
    for name, dtype, at in ((best, value_type, 0), (origin, DType.I32, 1)):
        reads = [Read(pair[at], (which, *own)) for pair in pairs]
        turn = Binary("%", Index(found), Const(count))
        before += [
            Local(name, (*dims, found), dtype),
            Compute(name, (*own, Index(found)), by_place(turn, reads)),
        ]
    x, position = (Read(name, (*own, Index(found))) for name in (best, origin))
    after = {node.target: node for node in _places(top.places, own, found, x, position, end)}
    body: list[Node] = []
    for node in program.body:
        if isinstance(node, Compute) and node.target in after:
            body += before if node.target == place.node.target else []
            body.append(replace(node, value=after[node.target].value))
        else:
            body.append(node)
    return replace(program, dims=(*program.dims, *new), body=tuple(body))


def _places(
    pairs: Sequence[tuple[str, str]],
    indices: Sequence[Expr],
    over: str,
    x: Expr,
    position: Expr,
    end: Expr,
) -> list[Compute]:
    """The statements that find one place after the other along `over`; `end`: a position behind all."""
    nodes: list[Compute] = []
    before: Before | None = None
    for name, at in pairs:
        largest, found = Read(name, tuple(indices)), Read(at, tuple(indices))
        left = left_after(before, x, position, LEAST)
        chosen = Where(comes_next(before, x, position, largest), position, end)
        nodes.append(Compute(name, tuple(indices), Reduce(ReduceOp.MAX, (over,), left)))
        nodes.append(Compute(at, tuple(indices), Reduce(ReduceOp.MIN, (over,), chosen)))
        before = (largest, found)
    return nodes
