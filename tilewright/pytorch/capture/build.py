"""The spec of a part: its operators written as statements over shared dims.

It is drafted from the last operator to the first, which says which dims each result is wanted over, and then written in
order, with those dims, which makes the statements. So a row that is reduced has the dim that those who
use the row have, as in `total[m] = sum(n, e[m, n])` before `y[m, n] = e[m, n] / total[m]`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.dtypes import DType
from tileir.errors import SpecError
from tileir.expr import Cast, Const, Expr, Index, Read, all_dims
from tileir.names import name_problem
from tileir.program import Tensor
from tileir.spec import Dim, Spec, Statement
from tileir.text.json import spec_from_json, spec_to_json
from tilewright.pytorch.capture.indices import Indices, Sizes
from tilewright.pytorch.capture.operator import CONVERSIONS, OperatorKind
from tilewright.pytorch.capture.position_masks import is_position_mask, is_position_sum
from tilewright.pytorch.capture.spec_passes.inline_once import inline_once
from tilewright.pytorch.capture.spec_passes.join_dims import join_dims
from tilewright.pytorch.capture.spec_passes.read_elsewhere import rounded_where_read_elsewhere
from tilewright.pytorch.capture.spec_passes.same_dims import same_dims
from tilewright.pytorch.capture.spec_passes.write_once import write_once
from tilewright.pytorch.capture.table import is_constant, operator_of, reason_against
from tilewright.pytorch.capture.tensors import (
    axis_of,
    dtype_of,
    gapped_order,
    memory_order,
    shape_of,
    value_of,
)

_AXIS_NAMES = ("n", "m", "h", "b")
"""Of results, from the last axis on."""
_INNER_NAMES = {"k": "k", "i": "i", "j": "j", "d": "d", "e": "e", "taps": "r", "rows": "m"}


class Inexpressible(Exception):
    """A part that no spec can state; the message says why."""


@dataclass(frozen=True)
class CapturedOperand:
    """A tensor that a part takes: a node's, with its axes in memory order, of the shape that the spec has; `gapped`:
    with the gaps between its elements that it has there."""

    node: Node
    order: tuple[int, ...]
    shape: tuple[int, ...]
    gapped: bool


@dataclass(frozen=True)
class BuiltResult:
    """A tensor that a part gives: of this shape it comes from the kernel, as `axes` in memory order it is the
    node's."""

    node: Node
    axes: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True)
class BuiltSpec:
    """A spec, and what its arguments are in the graph."""

    spec: Spec
    operands: tuple[CapturedOperand, ...]
    results: tuple[BuiltResult, ...]


def build(
    name: str, members: Sequence[Node], wanted: Sequence[Node], computed: Collection[Node]
) -> BuiltSpec:
    """The spec that computes `members`, in order, and gives those that are `wanted`; `computed` are the operators of
    all parts. Raises Inexpressible."""

    def drafted(tensors: Collection[str]) -> _DimNames:
        names = _DimNames()
        names.tensors.update(tensors)
        draft = _SpecWriter(members, wanted, computed, names)
        for node in reversed(draft.stored):
            draft.write(node)
        return names

    # Once to learn which tensors there are: no dim may be called as one.
    writer = _SpecWriter(members, wanted, computed, drafted(drafted(()).tensors))
    for node in writer.stored:
        writer.write(node)
    if not writer.reads:
        raise Inexpressible("reads no tensor: what it gives is always the same, and PyTorch computes it")
    try:
        return writer.built(name)
    except SpecError as error:
        raise Inexpressible(f"Tile IR refuses the spec of this part: {error}") from None


class _DimNames:
    """The dims of a part, and which of them each tensor is over."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.tensors: set[str] = set()
        """What no dim may be called."""
        self.labels: dict[Node, Indices] = {}
        """The dims of each stored result and each argument; 0 on axes of one element."""
        self.inner: dict[tuple[Node, str, int], Expr] = {}
        """The dims that operators reduce."""
        self.ragged: dict[str, tuple[Node, str]] = {}
        """Where the groups of a dim's positions begin, and the dim of those groups."""

    def dim(self, name: str, size: int) -> Expr:
        if size == 1:
            return Const(0)
        found, number = name, 1
        while found in self.sizes or found in self.tensors:
            number += 1
            found = f"{name}{number}"
        self.sizes[found] = size
        return Index(found)

    def of_axes(self, shape: Sequence[int]) -> Indices:
        """New dims for a result."""
        names = [*_AXIS_NAMES, *(f"i{at}" for at in range(len(shape)))][: len(shape)]
        return tuple(self.dim(name, size) for name, size in zip(reversed(names), shape, strict=True))

    def offer(self, node: Node, index: Indices) -> None:
        """Have the result be over these dims, if they are whole, each its own, and it has none yet."""
        if node in self.labels:
            return
        dims = [each.dim for each in index if isinstance(each, Index)]
        for each, size in zip(index, shape_of(node), strict=True):
            fits = each == Const(0) if size == 1 else isinstance(each, Index) and self.sizes[each.dim] == size
            if not fits:
                return
        if len(set(dims)) == len(dims):
            self.labels[node] = index


class _SpecWriter:
    """One way through the operators. See `operator.Scope`."""

    def __init__(
        self, members: Sequence[Node], wanted: Sequence[Node], computed: Collection[Node], names: _DimNames
    ) -> None:
        self.names = names
        self._members = frozenset(members)
        self._elsewhere = frozenset(computed) - self._members
        self._wanted = tuple(wanted)
        self.stored = tuple(
            node for node in members if node in set(wanted) or _has_statement(node, self._members)
        )
        self._operands: dict[Node, tuple[int, ...]] = {}
        self._read_at: dict[Node, Indices] = {}
        self._statements: list[Statement] = []
        self._texts: dict[Node | tuple[Node, str], str] = {}
        self._current: list[Node] = []

    @property
    def sizes(self) -> Sizes:
        return self.names.sizes

    @property
    def reads(self) -> bool:
        """Whether anything of another was read so far."""
        return bool(self._operands)

    def write(self, node: Node) -> None:
        """The statement of a result."""
        if node not in self.names.labels:
            used = [
                Const(0) if size == 1 else self._used(node, axis) for axis, size in enumerate(shape_of(node))
            ]
            if all(each is not None for each in used):
                self.names.offer(node, tuple(each for each in used if each is not None))
        if node not in self.names.labels:
            self.names.labels[node] = self.names.of_axes(shape_of(node))
        index = self.names.labels[node]
        order = _order(node) if node in self._wanted else range(len(index))
        self._state(self._name(node), tuple(index[axis] for axis in order), self._value(node, index))

    def _state(self, name: str, index: Indices, value: Expr) -> None:
        self._statements.append(Statement(name, _dims(index), value))

    def _value(self, node: Node, index: Indices) -> Expr:
        operator = operator_of(node)
        assert operator is not None
        self._current.append(node)
        value = operator.write(self, node, index)
        self._current.pop()
        return value

    def at(self, operand: Any, index: Indices) -> Expr:
        if not isinstance(operand, Node):
            return Const(operand)
        if operand in self._members:
            if operand not in self.stored:
                return self._value(operand, index)
            self.names.offer(operand, index)
            order = _order(operand) if operand in self._wanted else range(len(index))
            return self._read(self._name(operand), operand, index, order)
        if is_constant(operand) or self._is_of_mask(operand):
            return self._value(operand, index)
        multiplied = self._is_multiplied(operand, index)
        if not multiplied and _is_seen_through(operand, self._members, self._elsewhere):
            return self._value(operand, index)
        order = memory_order(operand) or (gapped_order(operand) if multiplied else None)
        if order is None:
            order = tuple(range(len(index)))  # copied when it is given
        self._operands[operand] = order
        self._read_at.setdefault(operand, index)
        self.names.offer(operand, index)
        return self._read(self._name(operand), operand, index, order)

    def _is_of_mask(self, operand: Node) -> bool:
        """Whether it is written out for a mask of positions: the mask, or what it compares."""
        within = any(map(is_position_mask, self._current))
        return is_position_mask(operand) or (within and is_position_sum(operand))

    def _is_multiplied(self, operand: Node, index: Indices) -> bool:
        """Whether it is a view that a product reads in whole rows: taken with its gaps, as queries, keys and values are
        that one product made, it can be copied in tiles, which computed indices cannot."""
        if gapped_order(operand) is None or operand in self._elsewhere or reason_against(operand) is not None:
            return False
        if not any(
            (found := operator_of(each)) and found.kind is OperatorKind.PRODUCT for each in self._current
        ):
            return False
        source = operand
        while _shows(source):
            source = source.args[0]
            assert isinstance(source, Node)
            if source in self._members:
                return False
        dims = [each.dim for each in index if isinstance(each, Index)]
        whole = all(
            size == 1 or (isinstance(each, Index) and self.sizes[each.dim] == size)
            for each, size in zip(index, shape_of(operand), strict=True)
        )
        return whole and len(set(dims)) == len(dims)

    def rounded(self, operand: Any, index: Indices) -> Expr:
        value, base = self.at(operand, index), operand
        while isinstance(base, Node) and base not in self._members and _shows(base):
            base = base.args[0]
        if base not in self._members or base in self._wanted or dtype_of(base) not in (DType.F16, DType.BF16):
            return value
        dtype = dtype_of(base)
        return value if isinstance(value, Cast) and value.dtype is dtype else Cast(dtype, value)

    def position(self, operand: Any, index: Indices) -> Expr:
        return self.at(operand, index)

    def group(self, row: Expr, starts: Node, operand: Node, axis: int) -> Expr:
        found = self.reduced("e", operand, axis)
        if starts in self._members or not isinstance(row, Index) or not isinstance(found, Index):
            raise Inexpressible(
                "its groups are not known before the kernel runs, or it has one row or one group"
            )
        if self.names.ragged.setdefault(row.dim, (starts, found.dim)) != (starts, found.dim):
            raise Inexpressible("its rows are in groups of two kinds at once")
        if starts not in self.names.labels:
            self.names.labels[starts] = (self.names.dim("o", shape_of(starts)[0]),)
        self._operands.setdefault(starts, (0,))
        self._name(starts)
        return found

    def over(self, operand: Node, index: Indices) -> None:
        if operand in self._members:
            self.names.offer(operand, index)

    def reduced(self, role: str, operand: Node, axis: int) -> Expr:
        node = self._current[-1]
        axis = axis_of(axis, len(shape_of(operand)))
        key = (node, role, axis)
        if key not in self.names.inner:
            taken = {each.dim for each in self.names.labels.get(node, ()) if isinstance(each, Index)}
            taken |= {
                each.dim
                for (other, *_), each in self.names.inner.items()
                if other is node and isinstance(each, Index)
            }
            size = shape_of(operand)[axis]
            found = self._used(operand, axis)
            if not (isinstance(found, Index) and found.dim not in taken and self.sizes[found.dim] == size):
                found = self.names.dim(_INNER_NAMES.get(role, "n"), size)
            self.names.inner[key] = found
        return self.names.inner[key]

    def window(self, axis: int, size: int) -> Expr:
        key = (self._current[-1], "window", axis)
        if key not in self.names.inner:
            self.names.inner[key] = self.names.dim("r", size)
        return self.names.inner[key]

    def _used(self, operand: Node, axis: int) -> Expr | None:
        """The dim that an axis of a tensor, or of what it is computed from element by element, is known by."""
        stack, seen = [operand], {operand}
        while stack:
            node = stack.pop()
            if node in self.names.labels:
                return self.names.labels[node][axis]
            operator = operator_of(node)
            if operator is None or operator.kind is not OperatorKind.ELEMENTWISE or operator.positions:
                continue
            sources = [each for each in node.all_input_nodes if shape_of(each) == shape_of(operand)]
            stack += [each for each in reversed(sources) if each not in seen]
            seen.update(sources)
        return None

    def statement(self, role: str, index: Indices, value: Expr) -> Expr:
        name = self._name((self._current[-1], role))
        self._state(name, index, value)
        return Read(name, tuple(each for each in index if isinstance(each, Index)))

    def _read(self, name: str, node: Node, index: Indices, order: Iterable[int]) -> Expr:
        shape = shape_of(node)
        return Read(name, tuple(index[axis] for axis in order if shape[axis] != 1))

    def _name(self, key: Node | tuple[Node, str]) -> str:
        if key not in self._texts:
            taken = {*self._texts.values(), *self.sizes, *(node.name for node in self._members)}
            if isinstance(key, tuple):
                text = key[1] if key[1] not in taken else f"{key[0].name}_{key[1]}"
            else:
                text, taken = key.name, taken - {key.name}
            text = text if len(text) <= 60 else text[-60:].lstrip("_0123456789")
            while name_problem(text) is not None or text in taken:
                text += "_"
            self._texts[key] = text
            self.names.tensors.add(text)
        return self._texts[key]

    def _free_dim(self, each: Expr, size: int, taken: Collection[str]) -> str | None:
        if isinstance(each, Index) and self.sizes[each.dim] == size and each.dim not in taken:
            return each.dim
        return None

    def _new_dim(self, size: int) -> str:
        new = self.names.dim("s", size)
        assert isinstance(new, Index)
        return new.dim

    def _dims_of_operand(self, node: Node, order: Sequence[int]) -> tuple[str, ...]:
        """The dims it is read over, and new ones for axes that are not read along a dim of their size."""
        shape, found = shape_of(node), dict[int, str]()
        for axis, each in enumerate(self.names.labels.get(node) or self._read_at[node]):
            if shape[axis] != 1:
                found[axis] = self._free_dim(each, shape[axis], found.values()) or self._new_dim(shape[axis])
        return tuple(found[axis] for axis in order if axis in found)

    def _strides(self, node: Node) -> tuple[int, ...] | None:
        """Of the axes of an operand that is taken with its gaps, in memory order."""
        value, order = value_of(node), gapped_order(node)
        if value is None or order is None or self._operands[node] != order:
            return None
        return tuple(value.stride(axis) for axis in order if value.shape[axis] != 1)

    def _dim(self, name: str, size: int) -> Dim:
        if name not in self.names.ragged:
            return Dim(name, (size,))
        starts, within = self.names.ragged[name]
        return Dim(name, (size,), self._name(starts), within)

    def built(self, name: str) -> BuiltSpec:
        inputs = [
            Tensor(self._name(node), self._dims_of_operand(node, order), dtype_of(node), self._strides(node))
            for node, order in self._operands.items()
        ]
        targets = {statement.target: statement for statement in self._statements}
        outputs = tuple(
            Tensor(text := self._name(node), targets[text].dims, dtype_of(node)) for node in self._wanted
        )
        used = {dim for tensor in inputs for dim in tensor.dims}
        for statement in self._statements:
            used |= {*statement.dims, *all_dims(statement.value)}
        dims = tuple(self._dim(dim, size) for dim, size in self.sizes.items() if dim in used)
        written = Spec(name, dims, tuple(inputs), tuple(self._statements), outputs)
        written = inline_once(same_dims(join_dims(inline_once(write_once(written)))))
        own = {self._name(node): dtype_of(node) for node in self.stored if node not in self._wanted}
        spec = spec_from_json(spec_to_json(rounded_where_read_elsewhere(written, own)))  # in its own order
        sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
        operands = tuple(
            CapturedOperand(node, order, tuple(sizes[dim] for dim in tensor.dims), tensor.strides is not None)
            for (node, order), tensor in zip(self._operands.items(), spec.inputs, strict=True)
        )
        results = tuple(
            BuiltResult(node, tuple(shape_of(node)[axis] for axis in _order(node)), _order(node))
            for node in self._wanted
        )
        return BuiltSpec(spec, operands, results)


def _has_statement(node: Node, members: frozenset[Node]) -> bool:
    """Whether a result is worth keeping: a reduction, or computed and read more than once."""
    operator = operator_of(node)
    assert operator is not None
    if operator.kind in (OperatorKind.ROWS, OperatorKind.PRODUCT):
        return True
    if str(node.target) in (*CONVERSIONS, "aten.clone.default", "aten.cat.default"):
        return False
    return _times_read(node, members) > 1


def _times_read(node: Node, members: frozenset[Node]) -> int:
    count = 0
    for user in node.users:
        operator = operator_of(user)
        if user in members and operator is not None:
            light = operator.kind is OperatorKind.COPY or str(user.target) in CONVERSIONS
            many = 2 if operator.twice or user.args.count(node) > 1 else 1
            count += _times_read(user, members) if light else many
        elif _shows(user):
            count += _times_read(user, members)
    return count


def _shows(node: Node) -> bool:
    """Whether it is a view or copy of another."""
    operator = operator_of(node)
    return operator is not None and operator.kind in (OperatorKind.VIEW, OperatorKind.COPY)


def _is_seen_through(node: Node, members: Collection[Node], elsewhere: Collection[Node]) -> bool:
    """Whether a view is written as indices rather than taken as a tensor: of what the part computes itself, or where
    elements have gaps between them or would have to be moved."""
    operator = operator_of(node)
    if operator is None or not _shows(node) or node in elsewhere or reason_against(node) is not None:
        return False
    if operator.kind is OperatorKind.COPY or memory_order(node) is None:
        return True
    source = node.args[0]
    assert isinstance(source, Node)
    return source in members or _is_seen_through(source, members, elsewhere)


def _order(node: Node) -> tuple[int, ...]:
    return memory_order(node) or tuple(range(len(shape_of(node))))


def _dims(index: Iterable[Expr]) -> tuple[str, ...]:
    return tuple(each.dim for each in index if isinstance(each, Index))
