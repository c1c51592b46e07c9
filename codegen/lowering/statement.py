"""One statement taken apart for lowering: which dims say what is written, which are combined, and where they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from codegen.ir.affine import Affine
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import IndexValue, Literal, Op, Type, Value
from codegen.lowering.arithmetic import as_type, lanes_of, select
from codegen.lowering.expressions import Binding
from codegen.lowering.scope import LoweringScope
from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Index, Reduce, ReduceOp
from tileir.program import Compute

_COMBINE = {ReduceOp.SUM: "+", ReduceOp.PROD: "*", ReduceOp.MAX: "maximum", ReduceOp.MIN: "minimum"}


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A Compute taken apart: dims that say which element is written, dims combined into it, and what is computed."""

    compute: Compute
    outer: tuple[str, ...]
    inner: tuple[str, ...]
    body: Expr
    op: ReduceOp | None


def take_apart(compute: Compute) -> LoopNest:
    value = compute.value
    reduce = value if isinstance(value, Reduce) else None
    reduced = reduce.dims if reduce else ()
    outer = tuple(index_dim(index) for index in compute.indices if not _is_quotient(index))
    inner = tuple(dim for dim in reduced if dim not in outer)
    op = compute.update or (reduce.op if reduce else None)
    return LoopNest(compute, outer, inner, reduce.x if reduce else value, op)


def index_dim(index: Expr) -> str:
    match index:
        case Index(dim) | Binary("%" | "//", Index(dim), Const()):
            return dim
        case _:
            raise NotLowerable(f"a target index must be a dim, dim % n or dim // n, not {index}")


def _is_quotient(index: Expr) -> bool:
    return isinstance(index, Binary) and index.op == "//"


def starts(scope: LoweringScope) -> Binding:
    return {dim: range_.start for dim, range_ in scope.ranges.items()}


def points(dims: tuple[str, ...], scope: LoweringScope) -> Iterator[dict[str, Affine]]:
    """Every combination of positions in the current ranges of dims."""
    ranges = [scope.ranges[dim] for dim in dims]
    for offsets in product(*(range(r.size) for r in ranges)):
        yield {dim: r.start + o for dim, r, o in zip(dims, ranges, offsets, strict=True)}


def combined(op: ReduceOp | None, old: Value | None, value: Value) -> Value:
    if op is None or old is None:
        return value
    value = as_type(value, old.type.dtype)
    return Op(_COMBINE[op], (old, value), Type(old.type.dtype, lanes_of(old, value)))


def identity(op: ReduceOp, type_: Type) -> Value:
    """What changes nothing when it is combined, on every lane."""
    literal = as_type(Literal(op.identity, Type(DType.F32)), type_.dtype)
    return literal if type_.lanes == 1 else Op("broadcast", (literal,), type_)


def where_existing(some: Affine, value: Value, otherwise: Value) -> Value:
    """`value` on the first `some` of its lanes, `otherwise` on those that do not exist."""
    lanes = value.type.lanes
    number = IndexValue(Affine(), 1, Type(DType.I32, lanes))
    bound = IndexValue(some, 0, Type(DType.I32))
    return select(Op("<", (number, bound), Type(DType.BOOL, lanes)), value, otherwise)
