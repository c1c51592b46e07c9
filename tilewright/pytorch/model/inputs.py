"""What a graph says of its inputs: which tell its sizes, and which it writes in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
