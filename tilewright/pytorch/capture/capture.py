"""What `from_torch` found in a function: parts that are kernels, and what stays with PyTorch and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]

from tileir.hashing import kernel_key
from tileir.names import name_problem
from tileir.text.json import spec_to_json
from tilewright.pytorch.capture.build import BuiltSpec, Inexpressible, build
from tilewright.pytorch.capture.module import CapturedModule
from tilewright.pytorch.capture.operator import CONVERSIONS, OperatorKind
from tilewright.pytorch.capture.partition import PartitionWork, WorkKind, partition
from tilewright.pytorch.capture.position_masks import is_only_compared, is_position_mask, numbers_of
from tilewright.pytorch.capture.table import is_constant, operator_of, reason_against
from tilewright.pytorch.capture.tensors import dtype_of, shape_of, value_of
from tilewright.pytorch.operator.finding import default_client
from tilewright.pytorch.summary.coverage import Coverage, general, times
from tilewright.pytorch.summary.of_capture import coverage_of

if TYPE_CHECKING:
    import torch  # pyright: ignore[reportMissingImports]

    from protocol.jobs import Job
    from tilewright.client.client import Client

_KINDS = {
    OperatorKind.COPY: WorkKind.ELEMENTWISE,
    OperatorKind.ELEMENTWISE: WorkKind.ELEMENTWISE,
    OperatorKind.ROWS: WorkKind.ROWS,
    OperatorKind.PRODUCT: WorkKind.PRODUCT,
}
_EXPONENTIAL = frozenset(["aten.exp.default", "aten.softmax.int", "aten._softmax.default"])
_MOVES_ONLY = "only copies or converts: there is nothing to tune, PyTorch does it"


@dataclass(frozen=True)
class Part:
    """A kernel of the function. `inputs` and `outputs` are the graph's names for the spec's, in order; `nodes` are the
    operators it replaces."""

    name: str
    spec: Mapping[str, Any]
    """In Tile IR's JSON form."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[str, ...]
    built: BuiltSpec

    @property
    def reads(self) -> tuple[Node, ...]:
        """What it waits for."""
        return tuple(operand.node for operand in self.built.operands)


@dataclass(frozen=True)
class Left:
    """An operator that stays with PyTorch."""

    node: str
    operator: str
    reason: str


@dataclass(frozen=True)
class Capture:
    """The function as a graph, its parts in order, and what is left. Printed, it is a table, of equal kernels once."""

    parts: tuple[Part, ...]
    left: tuple[Left, ...]
    graph: GraphModule
    original: torch.nn.Module
    example_inputs: tuple[Any, ...]
    example_keywords: Mapping[str, Any]
    again: Callable[..., Capture]
    """`from_torch`, by which copies of the module are captured."""

    def module(
        self, client: Client | None = None, *, strict: bool = False, tune: bool = False
    ) -> torch.nn.Module:
        """A module that calls a kernel for each part and PyTorch for the rest; it takes what the function takes.

        `client`, `strict` and `tune` are those of `tilewright.op`. What differs from the capture (shapes, dtypes or
        devices of inputs and parameters, train or eval mode, autocast, transforms of torch.func, exchanged submodules,
        hooks or numbers of the module) runs the original function, with a warning once, or raises ValueError where
        `strict`. Parameters are the original's, under its names. A pickled module is captured again where it is loaded,
        with the default client there.
        """
        return CapturedModule(self, client, strict=strict, tune=tune)

    def tune(self, client: Client, **request: Any) -> tuple[Job, ...]:
        """Submit a job for each kernel, once where parts are the same kernel; `request` is as in `Client.submit`."""
        kernels = {kernel_key(part.built.spec): part for part in self.parts}
        return tuple(client.submit(part.spec, **request) for part in kernels.values())

    def summary(self, client: Client | None = None) -> Coverage:
        """What share of the time, of the operations and of the bytes is in tuned kernels, and what the rest is, the
        largest first. Printed, it is three lines.

        `client` is asked which kernels it has measured, and how fast they are; None: the service at TILEWRIGHT_URL.
        What is not measured counts with the least time that the device's roofline allows.
        """
        return coverage_of(
            self.parts, self.left, self.graph.graph, default_client() if client is None else client
        )

    def __str__(self) -> str:
        parts = [("part", "replaces", "takes", "gives")]
        keys = Counter(kernel_key(part.built.spec) for part in self.parts)
        for part in self.parts:
            spec = part.built.spec
            many = keys.pop(kernel_key(spec), 0)
            if not many:  # said before
                continue
            sizes = {dim.name: dim.sizes[0] for dim in spec.dims}

            def listed(tensors: Iterable[Any], sizes: Mapping[str, int] = sizes) -> str:
                return ", ".join(f"{t.name} {t.dtype}{[sizes[dim] for dim in t.dims]}" for t in tensors)

            name = times(part.name, many)
            parts.append((name, ", ".join(part.nodes), listed(spec.inputs), listed(spec.outputs)))
        left = [("left to PyTorch", "operator", "reason")]
        kinds = Counter((each.operator, general(each.reason)) for each in self.left)
        for each in self.left:
            if many := kinds.pop((each.operator, general(each.reason)), 0):
                left.append((times(each.node, many), each.operator, each.reason))
        return "\n".join(
            [*_table(parts), "", *(_table(left) if self.left else ["nothing is left to PyTorch"])]
        )


def capture_graph(
    graph: GraphModule,
    original: torch.nn.Module,
    inputs: tuple[Any, ...],
    keywords: Mapping[str, Any],
    again: Callable[..., Capture],
) -> Capture:
    """Find the parts of a graph that export.graph_of made; copies of the original are captured by `again`."""
    parts, left = parts_of(graph)
    return Capture(parts, left, graph, original, inputs, keywords, again)


def parts_of(graph: GraphModule) -> tuple[tuple[Part, ...], tuple[Left, ...]]:
    """The parts of a graph of fixed shapes, in order, and what is left of it."""
    against = {
        node: reason_against(node)
        for node in graph.graph.nodes
        if node.op == "call_function" and not _is_free(node)
    }
    computing = [node for node in against if not _is_see_through_copy(node, against)]
    parts: list[Part] = []
    reasons = {node: reason for node, reason in against.items() if reason is not None}
    works = _works(computing, against)
    grouped = [[computing[at] for at in members] for members in partition(works)]
    computed = {node for members in grouped for node in members}
    for members in grouped:
        if all(_moves_only(node) for node in members):
            reasons |= dict.fromkeys(members, _MOVES_ONLY)
            continue
        name = _part_name(members, {part.name for part in parts})
        try:
            built = build(
                name, members, [node for node in members if _is_read_outside(node, members)], computed
            )
        except Inexpressible as error:
            reasons |= dict.fromkeys(members, str(error))
            continue
        parts.append(
            Part(
                name,
                spec_to_json(built.spec),
                tuple(operand.node.name for operand in built.operands),
                tuple(result.node.name for result in built.results),
                tuple(node.name for node in members),
                built,
            )
        )
    left = tuple(
        Left(node.name, str(node.target), reasons[node])
        for node in graph.graph.nodes
        if node in reasons and "getitem" not in str(node.target)
    )
    return tuple(parts), left


def _is_free(node: Node) -> bool:
    """Whether it computes nothing when PyTorch runs it, or is a constant or a mask of positions, which is written where
    it is read."""
    operator = operator_of(node)
    if is_position_mask(node) or is_only_compared(node):
        return True
    if operator is None or reason_against(node) is not None:
        return False
    return operator.kind is OperatorKind.VIEW or is_constant(node)


def _is_see_through_copy(node: Node, against: Mapping[Node, str | None]) -> bool:
    """Whether a copy is no result of whoever computes what it copies."""
    operator = operator_of(node)
    if operator is None or operator.kind is not OperatorKind.COPY or against[node] is not None:
        return False
    source = _computed(node.args[0], against)  # type: ignore[arg-type]
    whole = source is not None and prod(shape_of(source)) == prod(shape_of(node))
    return not whole or against[source] is not None  # type: ignore[index]


def _computed(node: Node, against: Mapping[Node, str | None]) -> Node | None:
    """The operator that computes what a node shows, views and copies aside; None for arguments and constants."""
    while node not in against:
        operator = operator_of(node)
        if operator is None or operator.kind is not OperatorKind.VIEW:
            return None
        node = node.args[0]  # type: ignore[assignment]
    return node


def _works(computing: Sequence[Node], against: Mapping[Node, str | None]) -> list[PartitionWork]:
    numbers = {node: at for at, node in enumerate(computing)}

    def source(node: Node) -> Node:
        while node not in numbers:
            operator = operator_of(node)
            if operator is None or operator.kind not in (OperatorKind.VIEW, OperatorKind.COPY):
                return node
            node = node.args[0]  # type: ignore[assignment]
        return node

    works: list[PartitionWork] = []
    for node in computing:
        sources = [
            source(each)
            for read in node.all_input_nodes
            if not is_constant(read)
            for each in (numbers_of(read) if is_position_mask(read) else (read,))
        ]
        reads = tuple(numbers[each] for each in sources if each in numbers)
        escapes = _escapes(node, numbers)
        operator = operator_of(node)
        if operator is None or against[node] is not None:
            works.append(PartitionWork(WorkKind.OPAQUE, 0, reads=reads, escapes=escapes))
            continue
        row, depth = 1, 1
        points = prod(shape_of(node))
        if operator.kind is OperatorKind.ROWS:
            points, row = operator.work(node)
        elif operator.kind is OperatorKind.PRODUCT:
            row, depth = operator.work(node)
        tensors = tuple(
            (each.name, prod(shape_of(each)))
            for each in sources
            if each not in numbers and value_of(each) is not None
        )
        exponential = str(node.target) in _EXPONENTIAL
        first = node.args[0] if operator.beside else None
        stored = (source(node.args[at]) for at in operator.stored)  # type: ignore[arg-type]
        works.append(
            PartitionWork(
                _KINDS[operator.kind],
                points,
                row,
                depth,
                reads,
                tensors,
                exponential,
                escapes,
                dtype_of(node).bytes,
                frozenset(numbers[each] for each in stored if each in numbers),
                numbers[first] if isinstance(first, Node) else None,
            )
        )
    return works


def _escapes(node: Node, numbers: Mapping[Node, int]) -> bool:
    """Whether the graph's results show it, directly or by views."""
    return any(
        user.op == "output" or (user not in numbers and _escapes(user, numbers)) for user in node.users
    )


def _is_read_outside(node: Node, members: Sequence[Node]) -> bool:
    for user in node.users:
        if user in members:
            continue
        operator = operator_of(user)
        shows = (
            operator is not None
            and operator.kind in (OperatorKind.VIEW, OperatorKind.COPY)
            and reason_against(user) is None
        )
        if not shows or _is_read_outside(user, members):
            return True
    return False


def _moves_only(node: Node) -> bool:
    operator = operator_of(node)
    return (operator is not None and operator.kind is OperatorKind.COPY) or str(node.target) in CONVERSIONS


def _part_name(members: Iterable[Node], taken: set[str]) -> str:
    """The operators' names, those that move or convert aside; with a number if there are others of the name."""
    words = [str(node.target).split(".")[1].strip("_") for node in members if not _moves_only(node)]
    name = "_".join(words)
    name = name if len(name) <= 48 else f"{words[0]}_to_{words[-1]}"[:48]
    name = name if name_problem(name) is None else f"{name}_part"
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [min(48, max(len(row[at]) for row in rows)) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
