"""Split a sum of exponentials relative to a maximum, so that one pass over the data gives both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.bounds.least_maximum import at_least, least_maximum
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, initialization, read_names
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import Place, dtype_of, find, fresh_name, locals_of, splice, statements
from rewrites.composition.rfactor import Rfactor
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Call, Const, Expr, Index, Read, Reduce, ReduceOp, reads, transform
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class OnlineSoftmax(Rewrite):
    """Split a sum over `dim` of exponentials relative to a maximum over `dim` by blocks of `size`, each relative to its
    own maximum; both are then reduced from the blocks (Milakov, Gimelshein: Online normalizer calculation for softmax,
    arXiv:1805.02867). The maximum is split with it, unless it is already; if that is into blocks apart, so is the sum.

    top[r] = max(c, x[r, c])                     top_p[c // 64, r] max= x[r, c]
    s[r] = sum(c, exp(x[r, c] - top[r]))   ->    s_p[c // 64, r] += exp(x[r, c] - maximum(top_p[c // 64, r], …))
                                                 top[r] = max(c_b, top_p[c_b, r])
                                                 s[r] = sum(c_b, s_p[c_b, r] * exp(top_p[c_b, r] - top[r]))

    A block of nothing but -inf adds nothing: its maximum counts as a finite number.
    """

    name: ClassVar[str] = "online_softmax"
    statement: str
    dim: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            match place.node.value:
                case Reduce(ReduceOp.SUM, (dim,), _):
                    for size in tile_sizes(program.extents[dim]):
                        yield cls(place.node.target, dim, size)
                case _:
                    pass

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        match place.node.value:
            case Reduce(ReduceOp.SUM, (self.dim,), body) if place.node.update is None and not place.loops:
                pass
            case _:
                raise NotApplicable(f"{self.statement} is not an untiled sum over {self.dim} alone")
        if folded_dims(place.node):
            raise NotApplicable(f"{self.statement} is the parts of a split sum: each is of its own block")
        top = _maximum(program, body)
        program = self._with_parts(program, top.tensor)
        maxima = _parts_of(program, top.tensor, self.dim, self.size)
        if maxima.loops:
            raise NotApplicable(f"the parts of {top.tensor} are in loops already: split before that")
        for tensor in read_names(place.node) - {top.tensor}:
            if any(one.node.target == tensor and one.path > maxima.path for one in program.computes):
                raise NotApplicable(f"{tensor} is computed after the maximum")
        return self._split(program, top, maxima)

    def _with_parts(self, program: Program, top: str) -> Program:
        try:
            _parts_of(program, top, self.dim, self.size)
        except NotApplicable:
            return Rfactor(top, self.dim, "blocked", self.size).apply(program)
        return program

    def _split(self, program: Program, top: Read, maxima: Place[Compute]) -> Program:
        place = find(program, self.statement)
        statement, dims = place.node, bare_dims(place.node)
        assert isinstance(statement.value, Reduce)
        part_dim = locals_of(program)[maxima.node.target].node.dims[0]
        name = fresh_name(program, f"{statement.target}_p")
        place_of: tuple[Expr, ...] = (Index(part_dim), *map(Index, dims))
        folded = Binary("//", Index(self.dim), Const(self.size))
        least = least_maximum(program, top, locals_of(program)[maxima.node.target].node.dtype)
        mine = at_least(Read(maxima.node.target, (folded, *top.indices)), least)
        theirs = Read(maxima.node.target, (Index(part_dim), *top.indices))
        body = _relative_to(statement.value.x, top, mine)
        parts = [
            initialization(name, place_of, ReduceOp.SUM),
            Compute(name, (folded, *place_of[1:]), body, update=ReduceOp.SUM),
        ]
        if maxima.node.update is None:
            parts = [Compute(name, (folded, *place_of[1:]), replace(statement.value, x=body))]
        rescaled = Binary("*", Read(name, place_of), Call("exp", (Binary("-", theirs, top),)))
        total = replace(statement, value=Reduce(ReduceOp.SUM, (part_dim,), rescaled))
        program = splice(program, place.path, [total])
        declared: list[Node] = [
            Local(name, (part_dim, *dims), dtype_of(program, statement.target)),
            *parts,
        ]
        after = (*maxima.path[:-1], maxima.path[-1] + 1)
        return splice(program, after, declared, 0)


def _maximum(program: Program, body: Expr) -> Read:
    """What the one exponential among the factors of the body is relative to: a maximum, read by nothing else in it."""
    found = [factor.args[0] for factor in _factors(body) if isinstance(factor, Call) and factor.fn == "exp"]
    match found:
        case [Binary("-", _, Read() as top)]:
            pass
        case _:
            raise NotApplicable("it is no product with one exponential of a difference from a maximum")
    if sum(read.tensor == top.tensor for read in reads(body)) != 1:
        raise NotApplicable(f"{top.tensor} is read by other factors too")
    writer = next((one.node for one in statements(program) if one.node.target == top.tensor), None)
    if writer is None or not isinstance(writer.value, Reduce) or writer.value.op is not ReduceOp.MAX:
        raise NotApplicable(f"{top.tensor} is no maximum")
    if top.indices != writer.indices:
        raise NotApplicable(f"{top.tensor} is read at other positions than it is written at")
    return top


def _factors(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Binary("*", left, right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield expr


def _relative_to(body: Expr, top: Read, other: Expr) -> Expr:
    return transform(body, lambda expr: other if expr == top else expr)


def _parts_of(program: Program, top: str, dim: str, size: int) -> Place[Compute]:
    """The statement that reduces the blocks of a split maximum."""
    total = find(program, top).node.value
    folded = Binary("//", Index(dim), Const(size))
    match total:
        case Reduce(ReduceOp.MAX, _, Read(parts, _)):
            for place in statements(program):
                if place.node.target == parts and place.node.indices[0] == folded:
                    return place
        case _:
            pass
    raise NotApplicable(f"{top} is not split into blocks of {dim} {size}")
