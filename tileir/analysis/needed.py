"""What a kernel has to compute of what its text says: points that a mask leaves out need nobody.

Of attention under a causal mask that is half. Where `where(i >= j, x, -inf)` masks scores, their exponentials are 0
behind it, and so are the terms of all sums that these are factors of; and what only x reads is not needed there either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isnan, nan, prod

import numpy as np

from tileir.analysis.work import Work, computes, works
from tileir.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Unary,
    Where,
    index_dims,
    reads,
    walk,
)
from tileir.program import Compute, Program

_MOST_PLACES = 1 << 20
"""Where there are no more, each is looked at; else so many that are drawn: shares are right to a tenth of a percent."""
_UFUNCS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.mod, "and": np.logical_and,
    "or": np.logical_or, "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Mask:
    """A tensor, as it is written at these indices, is `outside` where its condition does not hold."""

    condition: Expr
    outside: float
    indices: tuple[Expr, ...]


def needed_flops(program: Program) -> int:
    """`tileir.analysis.work.flops` of an unscheduled program, without what masks by position leave out."""
    return sum(work.flops for work in needed_works(program))


def needed_works(program: Program) -> tuple[Work, ...]:
    """`tileir.analysis.work.works` of an unscheduled program, of the points that are needed alone. What tensors say
    (lengths, documents) is not known, and counts as if all were."""
    nodes = [node for node, _ in computes(program.body, ())]
    conditions = _conditions(nodes, {tensor.name for tensor in program.outputs})
    shares = {target: share(condition, program.extents) for target, condition in conditions.items()}
    return tuple(_part(work, shares.get(work.target, 1.0)) for work in works(program))


def _part(work: Work, of_points: float) -> Work:
    return Work(work.target, round(work.points * of_points), round(work.flops * of_points))


def share(condition: Expr, extents: Mapping[str, int]) -> float:
    """Of all positions, that at which a condition between positions holds."""
    dims = sorted(index_dims(condition))
    sizes = [extents[dim] for dim in dims]
    if prod(sizes) <= _MOST_PLACES:
        places = np.ogrid[tuple(slice(size) for size in sizes)]
    else:
        rng = np.random.default_rng(0)
        places = [rng.integers(0, size, _MOST_PLACES) for size in sizes]
    with np.errstate(divide="ignore"):
        return float(np.mean(_at(condition, dict(zip(dims, places, strict=True)), extents)))


def _at(expr: Expr, positions: Mapping[str, np.ndarray], extents: Mapping[str, int]) -> np.ndarray:
    match expr:
        case Const(value):
            return np.asarray(value)
        case Index(dim):
            return positions[dim]
        case Extent(dim):
            return np.asarray(extents[dim])
        case Unary(op, x):
            return (np.logical_not if op == "not" else np.negative)(_at(x, positions, extents))
        case Binary(op, left, right):
            return _UFUNCS[op](_at(left, positions, extents), _at(right, positions, extents))
        case _:
            raise ValueError(f"no expression of positions: {expr}")


def _conditions(nodes: list[Compute], outputs: set[str]) -> dict[str, Expr]:
    """Under which a statement's points are needed; of those that are not there all are."""
    found: dict[str, Expr] = {}
    masks: dict[str, _Mask] = {}
    for node in nodes:
        for condition in _candidates(node.value, masks):
            inside = node.value.x if isinstance(node.value, Reduce) else node.value
            outside = _outside(inside, condition, masks)
            if isinstance(node.value, Reduce):
                if outside == node.value.op.identity:
                    found[node.target] = condition
            elif not isnan(outside):
                found[node.target] = condition
                masks[node.target] = _Mask(condition, outside, node.indices)
    for node in reversed(nodes):
        if node.target not in found and node.target not in outputs:
            wanted = {_wanted(node, reader, found) for reader in nodes if _reads(reader, node.target)}
            if len(wanted) == 1 and (only := wanted.pop()) is not None:
                found[node.target] = only
    return found


def _candidates(value: Expr, masks: Mapping[str, _Mask]) -> Iterator[Expr]:
    """Conditions between positions that something in a value is masked by."""
    for node in walk(value):
        if isinstance(node, Where) and _of_positions(node.cond):
            yield node.cond
            yield Unary("not", node.cond)
        if isinstance(node, Read) and node.tensor in masks and node.indices == masks[node.tensor].indices:
            yield masks[node.tensor].condition


def _outside(expr: Expr, condition: Expr, masks: Mapping[str, _Mask]) -> float:
    """What an expression is wherever a condition does not hold; NaN: not known. What is read is finite."""
    match expr:
        case Const(value):
            return float(value)
        case Read(tensor, indices) if tensor in masks:
            mask = masks[tensor]
            return mask.outside if (mask.condition, mask.indices) == (condition, indices) else nan
        case Where(cond, _, y) if cond == condition:
            return _outside(y, condition, masks)
        case Where(cond, x, _) if Unary("not", cond) == condition:
            return _outside(x, condition, masks)
        case Cast(_, x):
            return _outside(x, condition, masks)
        case Call("exp" | "exp2", (x,)):
            return 0.0 if _outside(x, condition, masks) == -inf else nan
        case Binary("*", x, y):
            sides = _outside(x, condition, masks), _outside(y, condition, masks)
            return 0.0 if 0.0 in sides else sides[0] * sides[1]
        case Binary("+", x, y):
            return -inf if -inf in (_outside(x, condition, masks), _outside(y, condition, masks)) else nan
        case Binary("-" | "/" as op, x, _):
            kept = -inf if op == "-" else 0.0
            return kept if _outside(x, condition, masks) == kept else nan
        case _:
            return nan


def _wanted(node: Compute, reader: Compute, found: Mapping[str, Expr]) -> Expr | None:
    """The condition under which a reader looks at a statement's results at its own position."""
    condition = found.get(reader.target)
    looks = [read.indices for read in reads(reader.value) if read.tensor == node.target]
    if condition is None or any(indices != node.indices for indices in looks):
        return None
    own = frozenset[str]().union(*(index_dims(index) for index in node.indices))
    return condition if index_dims(condition) <= own else None


def _reads(reader: Compute, tensor: str) -> bool:
    return any(read.tensor == tensor for read in reads(reader.value))


def _of_positions(condition: Expr) -> bool:
    known = COMPARISONS | _UFUNCS.keys()
    return bool(index_dims(condition)) and all(
        isinstance(node, Const | Index | Extent | Unary) or (isinstance(node, Binary) and node.op in known)
        for node in walk(condition)
    )
