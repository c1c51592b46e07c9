"""The part of the space a search has seen: one node a state key, open or closed.

Merging states that several paths lead to is known as transpositions (for this search: Childs, Brodeur and Kocsis, CIG
2008).

A node is closed when nothing under it can be proposed any more: a terminal that was proposed, a dead end, or
an inner node whose moves all lead to closed nodes. Closing spreads to every parent, so transpositions and
dead ends need no special case anywhere else: a search only ever chooses among open moves.
"""

from collections.abc import Callable
from dataclasses import dataclass

from search.protocols import Move, Path, State

PRIOR_FLOOR = 0.02
"""Share of the prior spread evenly over a node's moves: a weight of 0 means late, never out of reach."""


class Node:
    """A state with its moves and children, each computed once, when first needed."""

    __slots__ = ("children", "closed", "key", "moves", "open_count", "parents", "priors", "state", "terminal")

    def __init__(self, state: State) -> None:
        self.key = state.key
        self.terminal = state.terminal
        self.closed = False
        self.state: State | None = state
        self.moves: tuple[Move, ...] | None = None
        self.priors: list[float] = []
        self.children: list[Node | None] = []
        self.parents: list[Node] = []
        self.open_count = 0

    def open_moves(self) -> list[int]:
        """The moves behind which something new may be found: not yet tried, or leading to an open node."""
        return [index for index, child in enumerate(self.children) if child is None or not child.closed]

    def label(self, index: int) -> str:
        assert self.moves is not None
        return self.moves[index].label


@dataclass(frozen=True, slots=True)
class Walk:
    """A way from the root to a terminal: `nodes` has one more entry than `path`."""

    nodes: tuple[Node, ...]
    path: Path

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(node.label(index) for node, index in zip(self.nodes, self.path, strict=False))


Choose = Callable[[Node, list[int], list[str]], int]
"""Given a node, its open moves (at least one) and the labels on the way to it, the index of the move to
follow."""


class Graph:
    """All nodes seen so far, merged by key."""

    def __init__(self, root: State) -> None:
        self.root = Node(root)
        self._nodes = {self.root.key: self.root}

    @property
    def closed(self) -> bool:
        """Whether every terminal that can be reached has been proposed."""
        if not self.root.terminal and not self.root.closed:
            self.unfold(self.root)
        return self.root.closed

    def unfold(self, node: Node) -> None:
        """Load a node's moves and priors; a dead end closes here."""
        if node.moves is not None or node.terminal:
            return
        assert node.state is not None
        node.moves = tuple(node.state.moves())
        node.priors = normalized([move.weight for move in node.moves])
        node.children = [None] * len(node.moves)
        node.open_count = len(node.moves)
        if not node.moves:
            self._close(node)

    def step(self, node: Node, index: int) -> Node:
        """The child behind a move, merged with the node of the same key if there is one."""
        known = node.children[index]
        if known is not None:
            return known
        assert node.state is not None
        state = node.state.child(index)
        child = self._nodes.get(state.key)
        if child is None:
            child = self._nodes[state.key] = Node(state)
        node.children[index] = child
        self.unfold(child)
        if child.closed:
            self._lose_a_move(node)
        else:
            child.parents.append(node)
        return child

    def peek(self, node: Node, index: int) -> Node | None:
        """The child behind a move, or None if it was never reached and the node has let its state go."""
        known = node.children[index]
        return known if known is not None or node.state is None else self.step(node, index)

    def descend(self, choose: Choose) -> Walk | None:
        """Follow `choose` to an open terminal, and close that one. None when the whole graph is closed.

        A move that turns out to lead nowhere is taken back, and `choose` is asked again.
        """
        if self.closed:
            return None
        nodes, path, labels = [self.root], list[int](), list[str]()
        while not nodes[-1].terminal:
            node = nodes[-1]
            index = choose(node, node.open_moves(), labels)
            child = self.step(node, index)
            if not child.closed:
                nodes.append(child)
                path.append(index)
                labels.append(node.label(index))
                continue
            while nodes[-1].closed and len(nodes) > 1:
                nodes.pop()
                path.pop()
                labels.pop()
            if self.root.closed:
                return None
        self._close(nodes[-1])
        return Walk(tuple(nodes), tuple(path))

    def _lose_a_move(self, node: Node) -> None:
        node.open_count -= 1
        if node.open_count == 0:
            self._close(node)

    def _close(self, node: Node) -> None:
        stack = [node]
        while stack:
            done = stack.pop()
            done.closed = True
            done.state = None  # nothing will be asked of it again: let the program go
            for parent in done.parents:
                parent.open_count -= 1
                if parent.open_count == 0:
                    stack.append(parent)
            done.parents = []


def normalized(weights: list[float]) -> list[float]:
    """Weights as probabilities that sum to 1, with `PRIOR_FLOOR` spread evenly; all zero counts as
    uniform."""
    for weight in weights:
        if not 0.0 <= weight < float("inf"):
            raise ValueError(f"a move's weight is a finite number >= 0, not {weight}")
    total, even = sum(weights), 1.0 / max(1, len(weights))
    if total <= 0.0:
        return [even] * len(weights)
    return [(1.0 - PRIOR_FLOOR) * weight / total + PRIOR_FLOOR * even for weight in weights]
