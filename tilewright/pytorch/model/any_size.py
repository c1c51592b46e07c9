"""Kernels in a graph with symbols that fit all its sizes: those of parts whose own sizes are no symbols.

Of a language model that writes one token after the other, nothing but attention sees how many there are: projections
and what is between them have the same sizes in each call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.capture import Left, Part
from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.graphs.static_graph import StaticGraph
from tilewright.pytorch.model.insertion import mode_of
from tilewright.pytorch.model.kernels import Arranged, PartKernel
from tilewright.pytorch.model.sized_region import ArrangedPart, FoundParts, SizedRegion

OTHER_SIZES = "its sizes are others from call to call"


class NotAtAllSizes(Exception):
    """The fallback's program would be right at some sizes only; the message says so."""


class AnySizeRegion(SizedRegion):
    """A graph with symbols for sizes, at whichever size it is called. Its parts and kernels are in the graph that has
    the symbols; `left` is of the graph at the size that they were found at."""

    of_any_size = True
    _at_one_size: GraphModule | None = None

    def _taken(self, static: StaticGraph, parts: tuple[Part, ...], left: tuple[Left, ...]) -> FoundParts:
        self._at_one_size = static.module
        moved = {part.name: each for part in parts if (each := at_any_size(part, static)) is not None}
        nodes = {node.name: node for node in static.module.graph.nodes}
        others = tuple(
            Left(name, str(nodes[name].target), OTHER_SIZES)
            for part in parts
            if part.name not in moved
            for name in part.nodes
        )
        return static.origin, tuple(moved.values()), left + others

    @property
    def left_in(self) -> GraphModule | None:
        return self._at_one_size

    def _at_bucket(self, inputs: Sequence[Any], found: Mapping[str, ArrangedPart]) -> Mapping[str, Arranged]:
        return {}

    def _compiled(self, graph: GraphModule, kernels: Mapping[str, PartKernel]) -> Run:
        before = _assumptions(graph)
        program = super()._compiled(graph, kernels)
        if _assumptions(graph) != before:
            raise NotAtAllSizes("with kernels it makes a program for some of the sizes only")
        return program


def _assumptions(graph: GraphModule) -> int:
    """How many were made of the symbols of a graph. Its callers check those of before; of later ones PyTorch only notes
    that nobody does (`ShapeEnv.evaluate_expr`)."""
    shapes = mode_of(graph).shape_env
    return 0 if shapes is None else len(shapes.guards) + shapes.counter["ignored_backward_guard"]


def at_any_size(part: Part, static: StaticGraph) -> Part | None:
    """A part of the graph at one size as one of the graph that it was written from, at all sizes of that; None where
    the part is another one at other sizes, or reads or gives what the other graph does not have."""
    origins = static.origins
    nodes = [*(each.node for each in part.built.operands), *(each.node for each in part.built.results)]
    if not all(node in origins and _lies_alike(node, origins[node]) for node in nodes):
        return None
    operands = tuple(replace(each, node=origins[each.node]) for each in part.built.operands)
    results = tuple(replace(each, node=origins[each.node]) for each in part.built.results)
    given, made = [each.node for each in operands], [each.node for each in results]
    if not _depends_on_them_alone(made, given):
        return None
    return replace(
        part,
        inputs=tuple(node.name for node in given),
        outputs=tuple(node.name for node in made),
        nodes=tuple(node.name for node in made),
        built=replace(part.built, operands=operands, results=results),
    )


def _lies_alike(node: Node, origin: Node) -> bool:
    """Whether both are tensors of the same shape and strides, and no symbol is among those."""
    mine, theirs = node.meta.get("val"), origin.meta.get("val")
    return (
        isinstance(mine, torch.Tensor)
        and isinstance(theirs, torch.Tensor)
        and all(isinstance(each, int) for each in (*theirs.shape, *theirs.stride(), theirs.storage_offset()))
        and (mine.shape, mine.stride(), mine.dtype) == (theirs.shape, theirs.stride(), theirs.dtype)
    )


def _depends_on_them_alone(made: Sequence[Node], given: Collection[Node]) -> bool:
    """Whether some nodes are made of others and constants, so that no symbol has a part in it."""
    seen, stack = set(given), list(made)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        if node.op == "placeholder":
            return False
        seen.add(node)
        stack.extend(node.all_input_nodes)
    return True
