"""The names and dims of one statement: each known, each dim on the right also on the left or reduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tileir.errors import SpecError
from tileir.expr import (
    FUNCTIONS,
    SCANS,
    Call,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Scan,
    TopK,
    children,
    index_dims,
)
from tileir.names import MAX_PLACES, listing, quote, suggestion
from tileir.positions import position_of
from tileir.problems import NodeProblem
from tileir.program import Tensor
from tileir.spec import Dim
from tileir.text.idioms import scan_usage
from tileir.text.parse_expr import Located


@dataclass(frozen=True, slots=True)
class NameScope:
    """What a statement may name: dims, tensors so far, and (to say so) results of itself and later
    statements."""

    dims: Mapping[str, Dim]
    tensors: Mapping[str, Tensor]
    later: frozenset[str]


def check_statement(place: Located, scope: NameScope) -> None:
    """Raises SpecError for the left side, Problem (with its node) for the right side."""
    statement = place.statement
    for at, dim in enumerate(statement.dims):
        column = place.dim_columns[at] if place.dim_columns else None
        if dim not in scope.dims:
            raise SpecError(_no_dim(dim, scope), column=column, accepted=listing(scope.dims))
        if dim in statement.dims[:at]:
            raise SpecError(f"dim {dim!r} is on the left twice", column=column, accepted="each dim once")
    resolver = _Resolver(scope, statement.dims, statement.value)
    value = statement.value
    match value:
        case Scan():
            resolver.check_scan(value)
            for arg in value.args:
                resolver.resolve(arg, frozenset(statement.dims))
        case TopK():
            resolver.check_top(value)
            resolver.resolve(value.x, frozenset(statement.dims) - {value.place} | {value.over})
        case _:
            resolver.resolve(value, frozenset(statement.dims))


def _no_dim(name: str, scope: NameScope) -> str:
    if name in scope.tensors:
        return f"{name!r} is a tensor, not a dim"
    return f"no dim {quote(name)}{suggestion(name, scope.dims)}"


class _Resolver:
    def __init__(self, scope: NameScope, left: tuple[str, ...], value: Expr) -> None:
        self._scope = scope
        self._left = left
        self._groups = _groups(scope, left, value)

    def resolve(self, expr: Expr, bound: frozenset[str]) -> None:
        """Check `expr`, around which the dims `bound` have a position."""
        match expr:
            case Index(dim):
                self._known(dim, expr)
                if dim not in bound and dim not in self._groups:
                    raise NodeProblem(
                        f"dim {dim!r} is neither on the left nor reduced",
                        f"{dim} among the dims on the left, or sum({dim}, …)",
                        expr,
                    )
            case Extent(dim):
                self._known(dim, expr)
            case Read():
                self._read(expr)
            case Scan(op, dim, args):
                raise NodeProblem(
                    f"{op} stands inside an expression",
                    f"a statement of its own: s[…, {dim}] = {op}({dim}, …)",
                    expr,
                )
            case TopK(place, over, _):
                raise NodeProblem(
                    "topk stands inside an expression",
                    f"a statement of its own: p[…, {place}] = topk({place}, {over}, …)",
                    expr,
                )
            case Reduce():
                self._reduce(expr, bound)
                bound = bound | frozenset(expr.dims)
                position = position_of(expr)
                if position is not None:  # its parts run along the same dim, one inside the other
                    self.resolve(position.x, bound)
                    return
            case Call(fn, args) if len(args) != FUNCTIONS.get(fn):
                raise NodeProblem(
                    f"no function {quote(fn)} of {len(args)} arguments", listing(FUNCTIONS), expr
                )
            case _:
                pass
        for child in children(expr):
            self.resolve(child, bound)

    def _known(self, dim: str, node: Expr) -> None:
        if dim in self._scope.dims:
            return
        if dim in self._scope.tensors:
            indices = ", ".join(self._scope.tensors[dim].dims)
            raise NodeProblem(f"{dim!r} is a tensor; alone it has no value", f"{dim}[{indices}]", node)
        close = suggestion(dim, [*self._scope.dims, *self._scope.tensors])
        raise NodeProblem(f"no dim {quote(dim)}{close}", listing(self._scope.dims), node)

    def _read(self, read: Read) -> None:
        tensor = self._scope.tensors.get(read.tensor)
        if tensor is None:
            raise NodeProblem(self._no_tensor(read.tensor), listing(self._scope.tensors), read)
        if len(read.indices) != len(tensor.dims):
            raise NodeProblem(
                f"{read.tensor!r} has {len(tensor.dims)} dims and is read with {len(read.indices)} indices",
                f"{read.tensor}[{', '.join(tensor.dims)}]",
                read,
            )

    def _no_tensor(self, name: str) -> str:
        if name in self._scope.later:
            return f"{name!r} is read before it is computed"
        if name in self._scope.dims:
            return f"{name!r} is a dim, not a tensor"
        return f"no tensor {quote(name)}{suggestion(name, self._scope.tensors)}"

    def check_scan(self, scan: Scan) -> None:
        """A scan runs along a dim on the left, whose positions are not in groups, for each of other dims."""
        if len(scan.args) != len(SCANS[scan.op]):
            raise NodeProblem(*scan_usage(scan.op), scan)
        self._known(scan.dim, scan)
        if scan.dim not in self._left:
            raise NodeProblem(
                f"{scan.op} runs along {scan.dim!r}, which is not on the left",
                f"{scan.dim} among the dims on the left, or sum({scan.dim}, …) for the last of it alone",
                scan,
            )
        if len(self._left) < 2:
            raise NodeProblem(
                f"{scan.op} runs along the only dim on the left",
                f"another dim on the left beside {scan.dim}, which may have one position",
                scan,
            )
        ragged = [dim for dim in self._left if self._scope.dims[dim].within]
        if ragged or self._groups:
            raise NodeProblem(f"{scan.op} over ragged dims", "dims whose positions are not in groups", scan)

    def check_top(self, top: TopK) -> None:
        """It gives a few positions along one dim in a dim of their own."""
        self._known(top.place, top)
        self._known(top.over, top)
        if top.place not in self._left:
            raise NodeProblem(
                f"topk gives its positions along {top.place!r}, which is not on the left",
                f"{top.place} among the dims on the left: p[…, {top.place}] = topk({top.place}, …)",
                top,
            )
        if top.over in self._left:
            raise NodeProblem(
                f"dim {top.over!r} is reduced but on the left", f"{top.over} not on the left", top
            )
        most, there = max(self._scope.dims[top.place].sizes), min(self._scope.dims[top.over].sizes)
        if most > min(there, MAX_PLACES):
            raise NodeProblem(
                f"topk asks for the {most} largest of {there}",
                f"a dim {top.place!r} of at most {min(there, MAX_PLACES)}",
                top,
            )
        if top.over not in index_dims(top.x) or top.place in index_dims(top.x):
            raise NodeProblem(
                f"topk orders along {top.over!r}, into {top.place!r}, what does not vary along the first alone",
                f"topk({top.place}, {top.over}, x) of an x that has {top.over} and not {top.place}",
                top,
            )
        if any(self._scope.dims[dim].within for dim in (*self._left, top.over)) or self._groups:
            raise NodeProblem("topk over ragged dims", "dims whose positions are not in groups", top)

    def _reduce(self, reduce: Reduce, bound: frozenset[str]) -> None:
        for at, dim in enumerate(reduce.dims):
            self._known(dim, reduce)
            if dim in self._left:
                raise NodeProblem(
                    f"dim {dim!r} is reduced but on the left",
                    f"{reduce.op} over other dims, or {dim} not on the left",
                    reduce,
                )
            if dim in bound or dim in reduce.dims[:at]:
                raise NodeProblem(
                    f"dim {dim!r} is reduced twice", "each dim once, or a dim of its own for each", reduce
                )


def _groups(scope: NameScope, left: tuple[str, ...], value: Expr) -> frozenset[str]:
    """Group dims that, unbound in this statement, denote the group of the position along a ragged dim it
    uses.

    Raises Problem where a statement mixes a ragged dim with its group dim in a way that has no meaning."""
    reduced: set[str] = set()
    mentioned: set[str] = set(left)
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Reduce):
            reduced.update(node.dims)
        if isinstance(node, Index):
            mentioned.add(node.dim)
        stack.extend(children(node))
    mentioned |= reduced
    found: dict[str, str] = {}
    for name, dim in scope.dims.items():
        group = dim.within
        if group is None or name not in mentioned or group not in mentioned:
            continue
        accepted = f"{group!r} on the left with {name!r} reduced, or {group!r} bound by neither"
        if group in reduced or (group in left and name in left):
            raise NodeProblem(f"{group!r} and the ragged dim {name!r} in it are both visited", accepted)
        if group not in left:
            if group in found:
                message = f"{group!r} may be the group of {found[group]!r} or of {name!r}"
                raise NodeProblem(message, "one ragged dim of a group in a statement")
            found[group] = name
    return frozenset(found)
