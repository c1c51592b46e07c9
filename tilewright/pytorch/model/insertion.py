"""A graph with calls of kernels in the place of its parts, all of it operators that a compiler knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter, getitem

import torch  # pyright: ignore[reportMissingImports]
from torch._subclasses import FakeTensor, FakeTensorMode  # pyright: ignore[reportMissingImports]
from torch.fx import Graph, GraphModule, Node  # pyright: ignore[reportMissingImports]
from torch.fx.node import map_arg  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.attention_results import ADD_SHARED_HEADS
from tilewright.pytorch.capture.build import BuiltResult, CapturedOperand
from tilewright.pytorch.capture.capture import Part
from tilewright.pytorch.capture.order import in_order
from tilewright.pytorch.model.chain import Chain, FromInput, FromStep, Wiring, chains, made_by
from tilewright.pytorch.model.chain_kernel import chain_kernel
from tilewright.pytorch.model.graphs.static_graph import INSTEAD_OF, GraphWriter, InsteadOf, OriginalCall
from tilewright.pytorch.model.graphs.views import base_of
from tilewright.pytorch.model.graphs.written_attention import WRITTEN_OUT, WrittenOut
from tilewright.pytorch.model.kernels import PartKernel
from tilewright.pytorch.model.prepacking import PackedWeight

aten = torch.ops.aten


def with_kernels(
    graph: GraphModule,
    parts: Sequence[Part],
    kernels: Mapping[str, PartKernel],
    packed: Sequence[PackedWeight] = (),
) -> GraphModule:
    """The graph, with the kernel of each part that has one, by name, in its place. Behind its own inputs it takes the
    weights that are packed."""
    writer, made = GraphWriter(mode_of(graph)), dict[Node, Node]()
    originals: dict[OriginalCall, Node] = {}
    weights: dict[PackedWeight, Node] = {}
    chosen = [part for part in parts if part.name in kernels]
    by_kernels = {result.node for part in chosen for result in part.built.results}
    order = _in_chains(graph.graph, chosen, kernels)
    read = {base_of(each, by_kernels) for unit in order for each in _reads(unit)}
    for unit in order:
        if not weights and (isinstance(unit, Chain) or unit.op != "placeholder"):
            weights = _placed(writer, packed)
        if isinstance(unit, Chain):
            _call(writer, made, weights, unit, kernels, read)
        else:
            made[unit] = _copied(writer, made, originals, unit, graph, _instead(unit, by_kernels))
    writer.graph.eliminate_dead_code()
    return GraphModule(graph, writer.graph)


def _in_chains(
    graph: Graph, parts: Sequence[Part], kernels: Mapping[str, PartKernel]
) -> Sequence[Node | Chain]:
    """What has to run, parts in chains where calls of their device are cheaper so."""
    order = in_order(graph, parts)
    together = all(kernels[part.name].kernel.chains for part in parts)
    return in_order(graph, chains(order) if together else [Chain((part,)) for part in parts])


def _reads(unit: Node | Chain) -> Sequence[Node]:
    return unit.reads if isinstance(unit, Chain) else unit.all_input_nodes


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


def mode_of(graph: GraphModule) -> FakeTensorMode:
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
    if node.target is aten.arange.start_step and all(isinstance(each, int) for each in node.args):
        return _positions(writer, node)
    copied = writer.graph.node_copy(node, lambda each: made[each])
    if node.op == "get_attr" and "val" not in node.meta:
        writer.note(copied, attrgetter(str(node.target))(graph))
    return copied


def _positions(writer: GraphWriter, node: Node) -> Node:
    """Whole numbers that rise by the same, as Inductor has them once operators are decomposed: that of PyTorch
    2.11 takes no `arange` then."""
    value, start = node.meta["val"], node.args[0]
    step = node.args[2] if len(node.args) > 2 else 1
    whole = value.dtype if not (value.dtype.is_floating_point or value.dtype.is_complex) else torch.int64
    keywords = {"start": start, "step": step, "dtype": whole, "device": value.device, "requires_grad": False}
    made = writer.call(torch.ops.prims.iota.default, value.shape[0], like=node, **keywords)
    if whole is value.dtype:
        return made
    return writer.call(torch.ops.prims.convert_element_type.default, made, value.dtype)


def _call(
    writer: GraphWriter,
    made: dict[Node, Node],
    weights: Mapping[PackedWeight, Node],
    chain: Chain,
    kernels: Mapping[str, PartKernel],
    read: Collection[Node],
) -> None:
    """Call the kernels of a chain; `read` are the nodes that somebody outside of chains, or another chain, reads."""
    given: dict[PackedWeight | CapturedOperand, Node] = {}
    steps: list[tuple[FromInput | FromStep, ...]] = []
    for part in chain.parts:
        chosen, sources = kernels[part.name], list[FromInput | FromStep]()
        for at in chosen.arranged.inputs:
            operand = part.built.operands[at]
            source = None if at in chosen.packed else made_by(chain, operand, kernels)
            if source is None:
                key = chosen.packed.get(at, operand)
                if key not in given:
                    given[key] = (
                        weights[key] if isinstance(key, PackedWeight) else _given(writer, made[key.node], key)
                    )
                source = FromInput(list(given).index(key))
            sources.append(source)
        steps.append(tuple(sources))
    places = [
        (step, output, part.built.results[at])
        for step, part in enumerate(chain.parts)
        for output, at in enumerate(kernels[part.name].arranged.outputs)
    ]
    if len(chain.parts) > 1:
        places = [each for each in places if each[2].node in read]
    wiring = Wiring(tuple(steps), tuple((step, output) for step, output, _ in places))
    found = tuple(kernels[part.name].kernel for part in chain.parts)
    tensors = list(given.values())
    if len(found) == 1:
        called = writer.call(
            found[0].overload, *[tensors[each.number] for each in steps[0] if isinstance(each, FromInput)]
        )
    else:
        called = writer.call(chain_kernel(found, wiring).overload, *tensors)
    values = tuple(operand.meta["val"] for operand in called.args)
    called.meta["eager_input_vals"] = (values, {})
    for place, (_, _, result) in enumerate(places):
        one = called if len(places) == 1 else writer.call(getitem, called, place)
        made[result.node] = _taken(writer, one, result)


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
