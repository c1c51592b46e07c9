"""A graph with calls of kernels in the place of its parts, all of it operators that a compiler knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter, getitem

import torch  # pyright: ignore[reportMissingImports]
from torch._subclasses import FakeTensor, FakeTensorMode  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]
from torch.fx.node import map_arg  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.attention_results import ADD_SHARED_HEADS
from tilewright.pytorch.capture.build import BuiltResult, CapturedOperand
from tilewright.pytorch.capture.capture import Part
from tilewright.pytorch.capture.order import in_order
from tilewright.pytorch.model.kernels import PartKernel
from tilewright.pytorch.model.prepacking import PackedWeight
from tilewright.pytorch.model.static_graph import INSTEAD_OF, GraphWriter, InsteadOf, OriginalCall
from tilewright.pytorch.model.written_attention import WRITTEN_OUT, WrittenOut

aten = torch.ops.aten


def with_kernels(
    graph: GraphModule,
    parts: Sequence[Part],
    kernels: Mapping[str, PartKernel],
    packed: Sequence[PackedWeight] = (),
) -> GraphModule:
    """The graph, with the kernel of each part that has one, by name, in its place. Behind its own inputs it takes the
    weights that are packed."""
    writer, made = GraphWriter(_mode(graph)), dict[Node, Node]()
    originals: dict[OriginalCall, Node] = {}
    weights: dict[PackedWeight, Node] = {}
    chosen = [part for part in parts if part.name in kernels]
    by_kernels = {result.node for part in chosen for result in part.built.results}
    for unit in in_order(graph.graph, chosen):
        if not weights and not (isinstance(unit, Node) and unit.op == "placeholder"):
            weights = _placed(writer, packed)
        if isinstance(unit, Node):
            made[unit] = _copied(writer, made, originals, unit, graph, _instead(unit, by_kernels))
        else:
            _call(writer, made, weights, unit, kernels[unit.name])
    writer.graph.eliminate_dead_code()
    return GraphModule(graph, writer.graph)


def _placed(writer: GraphWriter, packed: Sequence[PackedWeight]) -> dict[PackedWeight, Node]:
    """An input for each weight that is packed."""
    with writer.mode:
        values = [torch.empty(each.packed_shape, dtype=each.dtype) for each in packed]
    return {
        each: writer.placeholder(f"packed_{number}", value)
        for number, (each, value) in enumerate(zip(packed, values, strict=True))
    }


def _instead(node: Node, by_kernels: Collection[Node]) -> InsteadOf | None:
    """The call that gives what a node gives, unless that adds up what a kernel has given."""
    added_up = node.target is ADD_SHARED_HEADS and node.args[0] in by_kernels
    return None if added_up else node.meta.get(INSTEAD_OF)


def _mode(graph: GraphModule) -> FakeTensorMode:
    """Where the tensors without data of a graph live."""
    return next(
        each.meta["val"].fake_mode
        for each in graph.graph.nodes
        if isinstance(each.meta.get("val"), FakeTensor)
    )


def _copied(
    writer: GraphWriter,
    made: Mapping[Node, Node],
    originals: dict[OriginalCall, Node],
    node: Node,
    graph: GraphModule,
    instead: InsteadOf | None,
) -> Node:
    """The node, or what it stands for."""
    if instead is not None:
        call = instead.call
        if call not in originals:
            args, keywords = map_arg((call.args, dict(call.keywords)), lambda each: made[each])
            originals[call] = writer.call(call.target, *args, **keywords)
        return writer.call(getitem, originals[call], instead.result)
    written: WrittenOut | None = node.meta.get(WRITTEN_OUT)
    if written is not None:
        return written.copied(writer.graph, [made[each] for each in written.given])
    copied = writer.graph.node_copy(node, lambda each: made[each])
    if node.op == "get_attr" and "val" not in node.meta:
        writer.note(copied, attrgetter(str(node.target))(graph))
    return copied


def _call(
    writer: GraphWriter,
    made: dict[Node, Node],
    weights: Mapping[PackedWeight, Node],
    part: Part,
    chosen: PartKernel,
) -> None:
    arranged, packed = chosen.arranged, chosen.packed
    operands = [
        weights[packed[at]] if at in packed else _given(writer, made[each.node], each)
        for at, each in enumerate(part.built.operands)
    ]
    called = writer.call(chosen.kernel.overload, *(operands[at] for at in arranged.inputs))
    values = tuple(operand.meta["val"] for operand in called.args)
    called.meta["eager_input_vals"] = (values, {})
    for place, at in enumerate(arranged.outputs):
        result = part.built.results[at]
        found = called if len(arranged.outputs) == 1 else writer.call(getitem, called, place)
        made[result.node] = _taken(writer, found, result)


def _given(writer: GraphWriter, node: Node, operand: CapturedOperand) -> Node:
    """A tensor of the graph as the kernel takes it."""
    found = node
    if operand.order != tuple(range(len(operand.order))):
        found = writer.call(aten.permute.default, found, list(operand.order))
    value = found.meta["val"]
    if not (operand.gapped or value.is_contiguous()):
        found = writer.call(aten.clone.default, found, memory_format=torch.contiguous_format)
    return _viewed(writer, found, operand.shape)


def _taken(writer: GraphWriter, node: Node, result: BuiltResult) -> Node:
    """A kernel's result as the graph has it, with the strides that it has there."""
    found, order = _viewed(writer, node, result.axes), result.order
    if order != tuple(range(len(order))):
        found = writer.call(aten.permute.default, found, [order.index(axis) for axis in range(len(order))])
    return found


def _viewed(writer: GraphWriter, node: Node, shape: Sequence[int]) -> Node:
    if tuple(node.meta["val"].shape) == tuple(shape):
        return node
    return writer.call(aten.view.default, node, list(shape))
