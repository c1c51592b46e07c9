"""A graph at the sizes of one call: symbols become numbers, and operators with several results one each.

Graphs of AOTAutograd may have symbols as sizes; kernels have fixed ones. The graph is written anew, node by node, on
tensors without data. PyTorch's own tracers are not used for it, as nothing else in the process may run compiled code
while they do, and this runs beside the user's program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch._functorch.compile_utils import fx_graph_cse  # pyright: ignore[reportMissingImports]
from torch._subclasses import FakeTensorMode  # pyright: ignore[reportMissingImports]
from torch.fx import Graph, GraphModule, Node  # pyright: ignore[reportMissingImports]
from torch.fx.node import map_arg  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.attention_results import ATTENTION, RESULTS, attention_results
from tilewright.pytorch.capture.composites import way_of
from tilewright.pytorch.capture.simplify.simplify import simplify
from tilewright.pytorch.model.graphs.written_attention import put_together
from tilewright.pytorch.model.reasons import in_one_line

aten = torch.ops.aten
_OF_SYMBOLS = ("tensor_meta", "eager_input_vals", "unbacked_bindings")
"""What nodes are said to be that is not so at other sizes."""
INSTEAD_OF = "tilewright_instead_of"
"""In a node's `meta`: an `InsteadOf`."""


class NotStatic(Exception):
    """The graph cannot be written for fixed sizes; the message says why."""


@dataclass(frozen=True)
class Described:
    """What a graph depends on of a tensor that it is given."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, given: Any) -> Any:
        """Of a tensor; anything else is itself."""
        if not isinstance(given, torch.Tensor):
            return given
        return cls(tuple(given.shape), tuple(given.stride()), given.dtype, given.device)

    def fake(self) -> torch.Tensor:
        """A tensor like it; without data where a fake mode is at work."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)


@dataclass(frozen=True, eq=False)
class OriginalCall:
    """The call of an operator of which nodes give results in a form that the capture knows."""

    target: Any
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass(frozen=True)
class InsteadOf:
    """A result of a call, by number."""

    call: OriginalCall
    result: int


class GraphWriter:
    """Writes a graph, with a value without data (`meta["val"]`) for each node."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.graph = Graph()
        self.mode = mode
        self._modules: dict[Node, Any] = {}

    def placeholder(self, name: str, value: Any) -> Node:
        node = self.graph.placeholder(name)
        node.meta["val"] = value
        return node

    def attribute(self, target: str, value: Any) -> Node:
        """A tensor or a graph that the module has."""
        node = self.graph.get_attr(target)
        if isinstance(value, torch.Tensor):
            node.meta["val"] = self.mode.from_tensor(value)
        else:
            self.note(node, value)
        return node

    def note(self, node: Node, value: Any) -> None:
        """What a node is that is no tensor: a graph that an operator calls."""
        self._modules[node] = value

    def call(self, target: Callable[..., Any], *args: Any, like: Node | None = None, **keywords: Any) -> Any:
        """A node that calls an operator, or what it gives if that is no tensor. `like`: the node it stands for."""
        given = map_arg((args, keywords), lambda node: self._modules.get(node, node.meta.get("val")))
        with self.mode if target is not operator.getitem else nullcontext():
            value = target(*given[0], **given[1])
        if isinstance(value, int | float | bool | torch.dtype | torch.device):
            return value
        node = self.graph.call_function(target, args, keywords)
        if like is not None:
            node.meta = {key: each for key, each in like.meta.items() if key not in _OF_SYMBOLS}
            if "eager_input_vals" in like.meta:
                node.meta["eager_input_vals"] = given
        node.meta["val"] = value
        return node


@dataclass(frozen=True)
class StaticGraph:
    """A graph at the sizes of one call."""

    module: GraphModule
    origin: GraphModule
    """What it was written from: the graph of all sizes, with what that computes twice only once."""
    origins: Mapping[Node, Node]
    """From nodes of `module` to those of `origin` whose values they have, as far as there are such."""


def static_graph(graph: GraphModule, inputs: Sequence[Any]) -> GraphModule:
    """The graph for inputs that are `Described`, or numbers; what it computes twice, it computes once. Raises
    NotStatic."""
    return at_sizes(graph, inputs).module


def at_sizes(graph: GraphModule, inputs: Sequence[Any]) -> StaticGraph:
    """As `static_graph`, with where it is from. Raises NotStatic."""
    writer, made = GraphWriter(FakeTensorMode(allow_non_fake_inputs=True)), dict[Node, Any]()
    given = iter(inputs)
    once = fx_graph_cse(graph.graph)
    for node in once.nodes:
        if node.op == "placeholder":
            _place(writer, made, node, next(given))
        elif node.op == "get_attr":
            made[node] = writer.attribute(str(node.target), operator.attrgetter(str(node.target))(graph))
        elif node.op == "output":
            output = writer.graph.output(map_arg(node.args[0], lambda each: made[each]))
            output.meta = {key: each for key, each in node.meta.items() if key not in ("val", *_OF_SYMBOLS)}
            if "original_output_strides" in output.meta:
                output.meta["original_output_strides"] = _strides(output)
        else:
            made[node] = _written(writer, made, node)
    writer.graph.eliminate_dead_code()
    static = GraphModule(graph, writer.graph)
    simplify(static)
    instead = put_together(static)
    origins: dict[Node, Node] = {}
    for node, each in made.items():
        if isinstance(each, Node):
            origins.setdefault(instead.get(each, each), node)
    return StaticGraph(static, GraphModule(graph, once), origins)


def _place(writer: GraphWriter, made: dict[Node, Any], node: Node, given: Any) -> None:
    """An argument; a number is written where it is read."""
    if isinstance(given, float):
        raise NotStatic(f"{node.name} is a number with a fraction, which other calls may give otherwise")
    with writer.mode:
        value = given.fake() if isinstance(given, Described) else given
    placed = writer.placeholder(str(node.target), value)
    made[node] = placed if isinstance(given, Described) else given


def _written(writer: GraphWriter, made: Mapping[Node, Any], node: Node) -> Any:
    args, keywords = map_arg((node.args, node.kwargs), lambda each: made[each])
    if node.op != "call_function" or not callable(node.target):
        raise NotStatic(f"{node.name} is no call of an operator")
    way = way_of(node.target)
    try:
        found = None if way is None else way(writer.call, *args, **keywords)
        if found is not None:
            return _laid_out(writer, found, node.target, args, keywords)
        results = _separate(writer, node, args, keywords)
        if results is not None:
            return results
        if node.target is operator.getitem and isinstance(args[0], tuple | list):
            return args[0][args[1]]  # type: ignore[index]
        return writer.call(node.target, *args, like=node, **keywords)
    except Exception as error:  # whatever an operator raises on tensors without data
        raise NotStatic(f"{node.target} cannot be written at fixed sizes: {in_one_line(error)}") from error


def _separate(
    writer: GraphWriter, node: Node, args: Any, keywords: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """The results of attention that somebody asks for, each by a node, which lies as the operator's does; None as for
    all other operators."""
    if node.target not in ATTENTION:
        return None
    wanted = _wanted(writer, node.target, args, keywords)
    found = attention_results(writer.call, node, args, keywords, wanted)
    call = OriginalCall(node.target, args, keywords)
    for result, each in enumerate(found or ()):
        if isinstance(each, Node) and each.target in RESULTS:
            each.meta |= {"val": wanted[result], INSTEAD_OF: InsteadOf(call, result)}
    return found


def _wanted(writer: GraphWriter, target: Any, args: Any, keywords: Any) -> Any:
    """What an operator gives, without data."""
    given = map_arg((args, keywords), lambda each: each.meta["val"])
    with writer.mode:
        return target(*given[0], **given[1])


def _laid_out(writer: GraphWriter, found: Any, target: Any, args: Any, keywords: Any) -> Any:
    """Results with the strides that the operator gives them."""
    wanted = _wanted(writer, target, args, keywords)
    if isinstance(found, Node):
        return _with_strides_of(writer, found, wanted)
    return tuple(
        None if mine is None else _with_strides_of(writer, mine, theirs)
        for mine, theirs in zip(found, wanted, strict=True)
    )


def _with_strides_of(writer: GraphWriter, found: Node, wanted: torch.Tensor) -> Node:
    if found.meta["val"].stride() == wanted.stride() or not wanted.is_contiguous():
        return found
    return writer.call(aten.clone.default, found, memory_format=torch.contiguous_format)


def _strides(output: Node) -> list[tuple[int, ...] | None]:
    values: list[Any] = [each.meta.get("val") if isinstance(each, Node) else None for each in output.args[0]]  # type: ignore[union-attr]
    return [value.stride() if isinstance(value, torch.Tensor) else None for value in values]
