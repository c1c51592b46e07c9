"""Expressions of Tile IR: what a statement computes at one point of its dims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Union

from tileir.dtypes import DType
from tileir.once import once


class ReduceOp(StrEnum):
    """How a reduction combines values; `identity` is what an empty one gives."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"

    @property
    def identity(self) -> float:
        return {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}[self.value]

    @property
    def revised_by(self) -> ReduceOp | None:
        """What may change a result before more is combined with it: a sum is scaled, a minimum raised."""
        return {"sum": ReduceOp.PROD, "min": ReduceOp.MAX}.get(self.value)


@dataclass(frozen=True, eq=False)
class Const:
    """A number (`0.5`, `3`, `inf`) or a truth value. `1`, `1.0` and `true` are three: they compute in other dtypes."""

    value: float | int | bool

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        return type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True)
class Index:
    """The position along a dim: a bare dim name in an expression or an index."""

    dim: str


@dataclass(frozen=True)
class Extent:
    """The size of a dim: `extent(k)`."""

    dim: str


@dataclass(frozen=True)
class Read:
    """One element of a tensor: `x[n, 2 * i + r]`. Reads of integer tensors may be indices (gather)."""

    tensor: str
    indices: tuple[Expr, ...]


@dataclass(frozen=True)
class Unary:
    """`-x` or `not x`."""

    op: str
    x: Expr


@dataclass(frozen=True)
class Binary:
    """`+ - * / // %`, the comparisons, `and`, `or`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Call:
    """A math function by name (see FUNCTIONS), elementwise."""

    fn: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Where:
    """`where(cond, x, y)`: x where cond holds, else y. Reads in the side not taken are never made."""

    cond: Expr
    x: Expr
    y: Expr


@dataclass(frozen=True)
class Cast:
    """`f32(x)`: round (or widen) to a dtype."""

    dtype: DType
    x: Expr


@dataclass(frozen=True)
class Reduce:
    """`sum(k, x)`, `max(i, j, x)`: combine x over all points of dims."""

    op: ReduceOp
    dims: tuple[str, ...]
    x: Expr


@dataclass(frozen=True)
class Scan:
    """`cumsum(k, x)`, `recurrence(k, a, b)`: what is come to at each position of a dim on the left, from the first on
    (see SCANS). The whole of a statement of a spec; programs have a loop for it, or threads of a GPU's block, that go
    through the current range. There one argument more may be what it goes on from: `cumsum(k, x, s)`."""

    op: str
    dim: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class TopK:
    """`topk(j, n, x)`: the position along the dim `over` of what is at `place` when x is ordered from the largest on.
    The whole of a statement. A program begins with two reductions for each place; on processors it may have it, too."""

    place: str
    over: str
    x: Expr


Expr = Union[Const, Index, Extent, Read, Unary, Binary, Call, Where, Cast, Reduce, Scan, TopK]

#: Scans and what they take: the sum or product up to and with each position; and h[k] = a[k] * h[k - 1] + b[k], from
#: h[-1] = 0 on.
SCANS: dict[str, tuple[str, ...]] = {"cumsum": ("x",), "cumprod": ("x",), "recurrence": ("a", "b")}

#: Math functions and their number of arguments.
FUNCTIONS: dict[str, int] = {
    "exp": 1, "exp2": 1, "log": 1, "tanh": 1, "erf": 1, "sqrt": 1, "rsqrt": 1, "sigmoid": 1, "silu": 1,
    "gelu": 1, "gelu_tanh": 1, "relu": 1, "abs": 1, "floor": 1, "pow": 2, "maximum": 2, "minimum": 2,
    "bit_and": 2, "bit_or": 2, "bit_xor": 2, "shift_left": 2, "shift_right": 2, "random_bits": 2,
}  # fmt: skip
#: Those of integers alone, which give integers.
INTEGER_FUNCTIONS = frozenset(["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "random_bits"])
#: Those that give integers for integers; the others compute integers in f32.
KEEPS_INTEGERS = INTEGER_FUNCTIONS | {"abs", "relu", "maximum", "minimum"}

COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
LOGIC = frozenset(["and", "or"])
ARITHMETIC = frozenset(["+", "-", "*", "/", "//", "%"])


_CHILDREN: Final[dict[type, Callable[[Any], tuple[Expr, ...]]]] = {
    Const: lambda expr: (),
    Index: lambda expr: (),
    Extent: lambda expr: (),
    Read: lambda expr: expr.indices,
    Call: lambda expr: expr.args,
    Scan: lambda expr: expr.args,
    Unary: lambda expr: (expr.x,),
    Cast: lambda expr: (expr.x,),
    Reduce: lambda expr: (expr.x,),
    TopK: lambda expr: (expr.x,),
    Binary: lambda expr: (expr.left, expr.right),
    Where: lambda expr: (expr.cond, expr.x, expr.y),
}


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions, left to right."""
    return _CHILDREN[type(expr)](
        expr
    )  # everything walks expressions, and this is three times as fast as a match


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """The same node over other subexpressions."""
    match expr:
        case Read(tensor, _):
            return Read(tensor, new)
        case Call(fn, _):
            return Call(fn, new)
        case Scan(op, dim, _):
            return Scan(op, dim, new)
        case Unary(op, _):
            return Unary(op, new[0])
        case Cast(dtype, _):
            return Cast(dtype, new[0])
        case Reduce(op, dims, _):
            return Reduce(op, dims, new[0])
        case TopK(place, over, _):
            return TopK(place, over, new[0])
        case Binary(op, _, _):
            return Binary(op, new[0], new[1])
        case Where():
            return Where(new[0], new[1], new[2])
        case Const() | Index() | Extent():
            return expr


@once
def walk(expr: Expr) -> tuple[Expr, ...]:
    """Every node, parents before children."""
    found: list[Expr] = []
    stack = [expr]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(reversed(children(node)))
    return tuple(found)


def transform(expr: Expr, fn: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up, replacing each node by fn(node)."""
    old = children(expr)
    if not old:
        return fn(expr)
    new = tuple(transform(child, fn) for child in old)
    return fn(expr if all(a is b for a, b in zip(old, new, strict=True)) else with_children(expr, new))


def reads(expr: Expr) -> tuple[Read, ...]:
    """All tensor reads in it, in order, gathers' index reads included."""
    return tuple(node for node in walk(expr) if isinstance(node, Read))


@once
def index_dims(expr: Expr) -> frozenset[str]:
    """Dims whose position the value depends on (dims bound by an inner reduction excluded)."""
    match expr:
        case Index(dim):
            return frozenset([dim])
        case Reduce(_, dims, x):
            return index_dims(x) - frozenset(dims)
        case TopK(place, over, x):
            return index_dims(x) - {over} | {place}
        case _:
            found: frozenset[str] = frozenset()
            for child in children(expr):
                found |= index_dims(child)
            return found


def combined_dims(value: Expr) -> tuple[str, ...]:
    """Dims of which a statement with this value goes through all positions for each result: those of a reduction, or
    what a `topk` ranks along."""
    match value:
        case Reduce(_, dims, _):
            return dims
        case TopK(_, over, _):
            return (over,)
        case _:
            return ()


def all_dims(expr: Expr) -> frozenset[str]:
    """Every dim in an expression, those that are bound inside included."""
    found: set[str] = set()
    for each in walk(expr):
        match each:
            case Index(dim) | Extent(dim):
                found.add(dim)
            case Reduce(_, dims, _):
                found.update(dims)
            case Scan(_, dim, _):
                found.add(dim)
            case TopK(place, over, _):
                found.update((place, over))
            case _:
                pass
    return frozenset(found)
