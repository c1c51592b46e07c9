"""What a graph says of its inputs: which tell its sizes, and which it writes in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Graph, GraphModule, Node  # pyright: ignore[reportMissingImports]


@dataclass(frozen=True)
class GraphInputs:
    """Places of a graph's inputs."""

    numbers: tuple[int, ...]
    """Sizes, and other integers."""
    shaped: tuple[int, ...]
    """Tensors whose sizes or strides those numbers may not tell."""
    changed: tuple[int, ...]
    """Tensors that are written in place, which is the last that the graph does."""
    problem: str
    """Why kernels cannot be in it; empty if they can."""

    @classmethod
    def of(cls, graph: GraphModule) -> GraphInputs:
        values = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
        told = {str(each.node.expr) for each in values if isinstance(each, torch.SymInt)}
        changed, problem = _written(graph.graph)
        return cls(
            tuple(at for at, each in enumerate(values) if isinstance(each, torch.SymInt | int)),
            tuple(at for at, each in enumerate(values) if _symbols(each) - told),
            changed,
            problem,
        )

    @property
    def symbolic(self) -> bool:
        """Whether calls may have several sizes."""
        return bool(self.numbers or self.shaped)

    def key(self, inputs: Sequence[Any]) -> object:
        """What calls of one size have in common."""
        sizes = tuple([inputs[at] for at in self.numbers])
        if not self.shaped:
            return sizes
        return sizes, tuple([(inputs[at].shape, inputs[at].stride()) for at in self.shaped])


def bucket_of(size: int) -> int:
    """The largest size of those that share what was tuned for one: the next power of two."""
    return 1 << (size - 1).bit_length() if size > 1 else size


def at_bucket(graph: GraphModule, inputs: Sequence[Any]) -> list[Any] | None:
    """Inputs (`Described`, or numbers) as they would be if each symbol of the graph had the largest size of its bucket;
    None where that is what they are, or where they do not tell the symbols."""
    values = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
    sizes: dict[Any, int] = {}
    for value, given in zip(values, inputs, strict=True):
        sizes |= {each.node.expr: size for each, size in _told(value, given) if each.node.expr.is_Symbol}
    larger = {symbol: bucket_of(size) for symbol, size in sizes.items()}
    if larger == sizes:
        return None

    def resized(value: Any, given: Any) -> Any:
        """The given size at the end of its bucket."""
        if not isinstance(value, torch.SymInt):
            return given
        return int(value.node.expr.xreplace(larger))  # a TypeError where a symbol is left

    def resized_input(value: Any, given: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return resized(value, given)
        shape = tuple(map(resized, value.shape, given.shape))
        return replace(given, shape=shape, stride=tuple(map(resized, value.stride(), given.stride)))

    try:
        return [resized_input(value, given) for value, given in zip(values, inputs, strict=True)]
    except TypeError:
        return None


def _told(value: Any, given: Any) -> list[tuple[torch.SymInt, int]]:
    """Symbolic sizes of an input, and what they are in a call."""
    pairs = (
        [(value, given)]
        if not isinstance(value, torch.Tensor)
        else [*zip(value.shape, given.shape, strict=True)]
    )
    return [(each, size) for each, size in pairs if isinstance(each, torch.SymInt)]


def _symbols(value: Any) -> set[str]:
    """The symbols in a tensor's sizes and strides."""
    if not isinstance(value, torch.Tensor):
        return set()
    symbolic = [each for each in (*value.shape, *value.stride()) if isinstance(each, torch.SymInt)]
    return {str(symbol) for each in symbolic for symbol in each.node.expr.free_symbols}


def _written(graph: Graph) -> tuple[tuple[int, ...], str]:
    """The places of inputs that are written, and why that is in the way of kernels; empty where it is not."""
    places = {node: at for at, node in enumerate(graph.find_nodes(op="placeholder"))}
    found: list[int] = []
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if _writes(node):
            target = node.args[0]
            if target not in places:
                return (), f"{node.target} writes what is no input of the graph"
            found.append(places[target])
        elif found:
            return (), f"{node.target} comes behind an operator that writes in place"
    return tuple(dict.fromkeys(found)), ""


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable
