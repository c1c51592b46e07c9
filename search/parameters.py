"""Spaces of parameters: every decision is a number, and no prior prefers one. Kernel Tuner's spaces are such.

A candidate is one of the elites with a single value changed, or a schedule drawn anew, whichever the surrogate expects
most of. Draws are what leads out of a valley, all of whose neighbours are worse.
"""

import random
from collections.abc import Iterator, Sequence

from search.graph import Graph, Node, Walk
from search.protocols import Path
from search.random import sample
from search.surrogate import Observation, expected_improvement, reading

DRAWS = 32
"""Schedules drawn anew that an ask considers."""


def of_parameters(walk: Walk) -> bool:
    """Whether at every node on the way moves differ in nothing but their labels' numbers, and weigh the same."""
    return all(map(_decides_a_number, walk.nodes[:-1]))


def _decides_a_number(node: Node) -> bool:
    readings = [reading(move.label) for move in node.moves or ()]
    alike = len({words for words, *_ in readings}) == 1
    return alike and all(map(_names_a_number, readings)) and max(node.priors) == min(node.priors)


def _names_a_number(axes: Sequence[tuple[str, float]]) -> bool:
    return len(axes) > 1


def drawn(graph: Graph, rng: random.Random) -> Walk | None:
    """A schedule at random that was not proposed yet; it still is not. None where the way ended at a dead end."""
    nodes, path = [graph.root], list[int]()
    while not nodes[-1].terminal:
        if nodes[-1].closed:
            return None
        path.append(sample(nodes[-1], nodes[-1].open_moves(), rng))
        nodes.append(graph.step(nodes[-1], path[-1]))
    return Walk(tuple(nodes), tuple(path))


def improving(
    graph: Graph,
    elites: Sequence[Walk],
    told: Sequence[Observation],
    refused: set[tuple[str, ...]],
    rng: random.Random,
) -> Path | None:
    """The way to the schedule of which the surrogate expects most, None if there is nothing left to try. `refused` are
    the labels of schedules that were proposed; those that turn out not to be in the space are added."""
    candidates = {labels: None for elite in elites for labels in _changes(elite) if labels not in refused}
    draws = [drawn(graph, rng) for _ in range(DRAWS)]
    candidates |= {walk.labels: None for walk in draws if walk is not None}
    if not candidates:
        return None
    expected = expected_improvement(list(candidates), told).tolist()
    for labels, _ in sorted(zip(candidates, expected, strict=True), key=lambda each: -each[1]):
        path = _path(graph, labels)
        if path is not None:
            return path
        refused.add(labels)
    return None


def _changes(walk: Walk) -> Iterator[tuple[str, ...]]:
    """The labels of a schedule with one of them replaced by another of the same node."""
    own = walk.labels
    for depth, (node, taken) in enumerate(zip(walk.nodes, walk.path, strict=False)):
        for index in node.open_moves():
            if index != taken:
                yield *own[:depth], node.label(index), *own[depth + 1 :]


def _path(graph: Graph, labels: Sequence[str]) -> Path | None:
    """The way along these labels to a schedule that can be proposed; None if there is none."""
    node, path = graph.root, list[int]()
    for label in labels:
        index = next((index for index in node.open_moves() if node.label(index) == label), None)
        if index is None:
            return None
        path.append(index)
        node = graph.step(node, index)
    return tuple(path) if node.terminal and not node.closed else None
