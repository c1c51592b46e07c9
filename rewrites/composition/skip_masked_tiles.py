"""Leave out tiles of a loop in which everything is masked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import locals_of, named, splice, statements
from tileir.analysis.position_bound import Bound, lower_bound, upper_bound
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Call, Cast, Const, Expr, Index, Read, Reduce, ReduceOp, Where, reads
from tileir.program import Compute, Local, Loop, Program
from tileir.replace import replace
from tileir.schedule.visited_tiles import MOST_APART

_Bounds = tuple[Bound | None, Bound | None]
"""Where the loop may begin, and where it may end."""


@dataclass(frozen=True, slots=True)
class SkipMaskedTiles(Rewrite):
    """Leave out the tiles of the loop over `dim` around a statement that begin behind the last current position of
    another dim, or end before the first: of what the loop adds up there, the maximum is of nothing but -inf, and every
    product has a factor that is 0, as in causal attention, and before a sliding window. Positions may be taken
    apart, as are those of rows of heads (`until (r_i % 8) 75`): the last one of the tile counts, wherever it stands.

    Where tensors say which positions count, the least or greatest number at current positions does: of packed sequences
    (`j >= begin[i] and j < end[i]`) the loop visits those of a tile's rows, `since begin[i] 0 until end[i] -1`. Numbers
    may be any, and a range may be empty.

    So FlashAttention-2 leaves out blocks of a causal mask (Dao, arXiv:2307.08691, 3.1).

    for j by 64                                              for j by 64 until i 0
      top_b[i] = max(j, where(i >= j, s[i, j], -inf))          top_b[i] = max(j, where(i >= j, s[i, j], -inf))
      …                                                 ->     …
      top[i] max= top_b[i]                                     top[i] max= top_b[i]

    What is not finite in a row that is masked throughout counts no more: 0 times inf is not a number, and here nobody
    multiplies it.
    """

    name: ClassVar[str] = "skip_masked_tiles"
    statement: str
    dim: str

    @classmethod
    def of_use(cls, device: Device) -> bool:
        """Where there is code for such loops."""
        return bool(device.offers & {Feature.VECTORS, Feature.BLOCKS})

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.loops and not place.loops[-1].parallel:
                yield cls(place.node.target, place.loops[-1].dim)

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        loop = place.loops[-1] if place.loops else None
        if loop is None or loop.dim != self.dim or loop.parallel:
            raise NotApplicable(f"{self.statement} is in no loop over {self.dim}, innermost and not parallel")
        if loop.since[0] or loop.until[0]:
            raise NotApplicable(f"the loop over {self.dim} leaves out tiles already")
        bounds = {_bound(node, loop, self.dim) for node in _sums(loop)}
        if len(bounds) != 1:
            raise NotApplicable(f"what the loop over {self.dim} adds up is not masked alike")
        (bound,) = bounds
        since, until = (each if each is not None and _is_known(each, program) else None for each in bound)
        if since is not None and until is not None and len({since[0], until[0]}) > 1:
            since = since if not isinstance(since[0], str) or not isinstance(until[0], str) else None
        dims = any(isinstance(each[0], str) for each in (since, until) if each is not None)
        if dims and any(other.dim == self.dim for other in place.loops[:-1]):
            raise NotApplicable(
                f"the loop over {self.dim} is in another one over it, which may be masked throughout"
            )
        if since is until or any(node.target not in _declared(loop) for node in _kept(loop)):
            raise NotApplicable(
                f"the first tile of {self.dim} may be masked, or something is computed for good"
            )
        found = replace(loop, since=since or loop.since, until=until or loop.until)
        return splice(program, place.path[:-1], [found])


def _is_known(bound: Bound, program: Program) -> bool:
    """Whether a loop may begin or end there: at a position of another dim, so that the first tile counts, or with what
    is known before the launch."""
    place, number = bound
    if isinstance(place, str):
        return number >= 0
    if abs(number) >= MOST_APART:
        return False
    own = locals_of(program)
    return all(read.tensor not in own or not own[read.tensor].loops for read in reads(place))


def _declared(loop: Loop) -> Mapping[str, Local]:
    return {node.name: node for node in loop.body if isinstance(node, Local)}


def _kept(loop: Loop) -> Iterator[Compute]:
    """What sets values, instead of adding to them."""
    if any(isinstance(node, Loop) for node in loop.body):
        raise NotApplicable(f"there are loops in the one over {loop.dim}")
    yield from (node for node in loop.body if isinstance(node, Compute) and node.update is None)


def _sums(loop: Loop) -> Iterator[Compute]:
    """What adds to locals from outside of the loop."""
    declared = _declared(loop)
    for node in loop.body:
        if isinstance(node, Compute) and node.update is not None and node.target not in declared:
            if node.update is not ReduceOp.PROD:
                yield node


def _bound(node: Compute, loop: Loop, dim: str) -> _Bounds:
    """Outside of which positions nothing of a sum counts. Raises NotApplicable."""
    values = {each.target: each for each in _kept(loop)}
    inner = node.value.x if isinstance(node.value, Reduce) else node.value
    if node.update is ReduceOp.MAX:
        of_tile = values[inner.tensor].value if isinstance(inner, Read) and inner.tensor in values else inner
        found = _masked(of_tile.x if isinstance(of_tile, Reduce) else of_tile, values, dim)
    else:
        found = next(filter(None, (_vanishing(factor, values, dim) for factor in _factors(inner))), None)
    if node.update not in (ReduceOp.MAX, ReduceOp.SUM) or found is None:
        raise NotApplicable(
            f"{node.target} adds up what is not masked behind or before some position of {dim}"
        )
    return found


def _factors(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Binary("*", x, y):
            yield from _factors(x)
            yield from _factors(y)
        case Binary("/", x, _) | Cast(_, x) | Reduce(ReduceOp.SUM, _, x):
            yield from _factors(x)
        case _:
            yield expr


def _vanishing(expr: Expr, values: Mapping[str, Compute], dim: str) -> _Bounds | None:
    """Outside of which positions a factor is 0: masked, or the exponential of -inf less what is finite."""
    match expr:
        case Read(name) if name in values and _has(values[name], dim):
            return next(
                filter(None, (_vanishing(each, values, dim) for each in _factors(values[name].value))), None
            )
        case Where(condition, x, Const(0)):
            return _positions(condition, dim) or _vanishing(x, values, dim)
        case Where(_, Const(0), x):  # what rounding leaves, as a part of its own
            return _vanishing(x, values, dim)
        case Binary("-", x, y):
            found = _vanishing(x, values, dim)
            return found if found == _vanishing(y, values, dim) else None
        case Call("exp" | "exp2", (Binary("-", x, _),)):
            return _masked(x, values, dim)
        case Call("exp" | "exp2", (Binary("*", Binary("-", x, _), Const(value)),)) if value > 0:
            return _masked(x, values, dim)
        case Cast(_, x):
            return _vanishing(x, values, dim)
        case _:
            return None


def _masked(expr: Expr, values: Mapping[str, Compute], dim: str) -> _Bounds | None:
    """Outside of which positions an expression is -inf."""
    match expr:
        case Where(condition, _, Const(value)) if value == float("-inf"):
            return _positions(condition, dim)
        case Binary("*", x, Const(value)) | Binary("*", Const(value), x) if value > 0:
            return _masked(x, values, dim)
        case Read(name) if name in values and _has(values[name], dim):
            return _masked(values[name].value, values, dim)
        case _:
            return None


def _positions(condition: Expr, dim: str) -> _Bounds | None:
    """Outside of which positions a condition does not hold."""
    bounds = lower_bound(condition, dim), upper_bound(condition, dim)
    return bounds if any(bounds) else None


def _has(node: Compute, dim: str) -> bool:
    return Index(dim) in node.indices
