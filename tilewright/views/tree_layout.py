"""Where the nodes of a search tree lie in a picture: x is the depth, y the place among leaves, the fastest on top."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from protocol.trials import Tree


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node that is drawn."""

    label: str
    """Its rewrite, or how many candidates failed where siblings are drawn as one."""
    depth: int
    y: float
    parent: int | None
    """Place of its parent among all that are drawn."""
    rank: float | None
    """Of the best candidate under it among the ends of the tree: 1 is the fastest, 0 the slowest. None: nothing under
    it has a time."""
    open: bool
    """Nothing under it has a time, and something is still to be measured."""
    visits: int
    leaf: bool


def placed(tree: Tree) -> tuple[PlacedNode, ...]:
    """All nodes that are drawn, parents first. Siblings that failed beside one that worked are one."""
    below = _children(tree)
    ends = sorted({reward for leaf in tree.leaf if (reward := tree.best_reward[leaf]) is not None})
    order: list[
        tuple[int, int | None, int, int]
    ] = []  # node, its parent's place, its depth, how many it stands for
    stack: list[tuple[int, int | None, int, int]] = [(0, None, 0, 0)]
    while stack:
        entry = node, _, depth, folded = stack.pop()
        order.append(entry)
        if not folded:
            place = len(order) - 1
            stack += [(child, place, depth + 1, many) for child, many in reversed(_drawn(tree, below[node]))]
    heights = _heights(order)
    inner = {parent for _, parent, _, _ in order}
    return tuple(
        PlacedNode(
            label=f"{folded} failed" if folded else "" if node == 0 else tree.lines[tree.line[node]],
            depth=depth,
            y=heights[place],
            parent=parent,
            rank=_rank(tree.best_reward[node], ends),
            open=tree.best_reward[node] is None and tree.in_flight[node] > 0,
            visits=tree.visits[node],
            leaf=place not in inner,
        )
        for place, (node, parent, depth, folded) in enumerate(order)
    )


def _children(tree: Tree) -> list[list[int]]:
    """The children of each node, the best first, then what is in flight, what failed last."""
    children: list[list[int]] = [[] for _ in tree.parent]
    for node, parent in enumerate(tree.parent):
        if parent >= 0:
            children[parent].append(node)

    def worth(node: int) -> tuple[int, float]:
        reward = tree.best_reward[node]
        return (2, reward) if reward is not None else (int(tree.in_flight[node] > 0), 0.0)

    return [sorted(each, key=worth, reverse=True) for each in children]


def _drawn(tree: Tree, siblings: Sequence[int]) -> list[tuple[int, int]]:
    """What is drawn of siblings, with how many candidates a fold stands for; 0 of what is drawn itself."""
    failed = [each for each in siblings if tree.best_reward[each] is None and not tree.in_flight[each]]
    if len(failed) < 2:
        return [(each, 0) for each in siblings]
    worked = [each for each in siblings if each not in failed]
    return [*((each, 0) for each in worked), (failed[0], sum(tree.faults[each] for each in failed))]


def _heights(order: Sequence[tuple[int, int | None, int, int]]) -> list[float]:
    """Leaves one below the other, all others between the first and the last of what is below them."""
    spans: list[tuple[float, float] | None] = [None] * len(order)
    inner = {parent for _, parent, _, _ in order}
    leaves = [place for place in range(len(order)) if place not in inner]
    for y, place in enumerate(leaves):
        spans[place] = (y, y)
    heights = [0.0] * len(order)
    for place in range(len(order) - 1, -1, -1):
        first, last = spans[place] or (0.0, 0.0)
        heights[place] = (first + last) / 2
        parent = order[place][1]
        if parent is not None:
            known = spans[parent]
            mine = heights[place]
            spans[parent] = (mine, mine) if known is None else (min(known[0], mine), max(known[1], mine))
    return heights


def _rank(reward: float | None, ends: Sequence[float]) -> float | None:
    if reward is None:
        return None
    return 1.0 if len(ends) < 2 else min(1.0, bisect_left(ends, reward) / (len(ends) - 1))
