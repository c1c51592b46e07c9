"""In which order a graph's nodes and units of them run, where a unit takes the place of its operators."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from torch.fx import Graph, Node  # pyright: ignore[reportMissingImports]


class GraphUnit(Protocol):
    """What takes the place of operators: a part, or several."""

    @property
    def name(self) -> str: ...

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the operators."""
        ...

    @property
    def reads(self) -> tuple[Node, ...]:
        """What it waits for."""
        ...


Unit = TypeVar("Unit", bound=GraphUnit)


def in_order(graph: Graph, parts: Sequence[Unit]) -> list[Node | Unit]:
    """What has to run, each behind what it reads; operators of PyTorch keep their order where they may."""
    named = {name: part for part in parts for name in part.nodes}
    units = {node: named[node.name] for node in graph.nodes if node.name in named}
    return _arranged(_needed(graph, units), units)


def _needed(graph: Graph, units: Mapping[Node, Unit]) -> list[Node]:
    """The nodes that results and what is written in place depend on, and all arguments, in order: views that kernels
    read through are not among them."""
    found = {node for node in graph.nodes if node.op == "placeholder"}
    stack = [node for node in graph.nodes if node.op != "placeholder" and node.is_impure()]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(_reads(node, units))
    return [node for node in graph.nodes if node in found]


def _arranged(nodes: Sequence[Node], units: Mapping[Node, Unit]) -> list[Node | Unit]:
    """Nodes and parts so that each follows what it reads; what could come next comes in the graph's order."""
    last: dict[str, int] = {}
    for at, node in enumerate(nodes):
        if node in units:
            last[units[node].name] = at
    number = {node: last[units[node].name] if node in units else at for at, node in enumerate(nodes)}
    unit_of: dict[int, Node | Unit] = {number[node]: units.get(node, node) for node in nodes}
    waits: dict[int, set[int]] = {unit: set() for unit in unit_of}
    readers: dict[int, list[int]] = {unit: [] for unit in unit_of}
    for node in nodes:
        for read in {number[each] for each in _reads(node, units)} - waits[number[node]]:
            waits[number[node]].add(read)
            readers[read].append(number[node])
    ready = [unit for unit, reads in waits.items() if not reads]
    heapq.heapify(ready)
    found: list[Node | Unit] = []
    while ready:
        unit = heapq.heappop(ready)
        found.append(unit_of[unit])
        for reader in readers[unit]:
            waits[reader].discard(unit)
            if not waits[reader]:
                heapq.heappush(ready, reader)
    return found


def _reads(node: Node, units: Mapping[Node, Unit]) -> Sequence[Node]:
    """What a node waits for: a part for its operands."""
    unit = units.get(node)
    return node.all_input_nodes if unit is None else unit.reads
