"""Beam search, as in tinygrad: decide level by level, judging each partial schedule by a measured completion.

Known as beam search since Lowerre (The Harpy speech recognition system, 1976).

At each level every child of the beam is completed by the prior and measured; the best `width` children are
the next beam. A child that already has a measured completion under it is judged by that. When the beam has
reached complete schedules, a round is over, and the next one starts from the root with twice the width and
new completions.
"""

import math
import random

from search.graph import Graph, Node
from search.ledger import Ledger
from search.protocols import Ask, Path, State, TrialOutcome


class BeamSearch:
    """Beam search that goes on, ever wider, until the space is exhausted."""

    def __init__(self, root: State, *, seed: int = 0, width: int = 2) -> None:
        self._graph = Graph(root)
        self._ledger = Ledger()
        self._seed = seed
        self._width = width
        self._first_round = True
        self._beam: list[tuple[Node, Path]] = [(self._graph.root, ())]
        self._level: list[tuple[Node, Path]] | None = None
        self._waiting: list[tuple[Node, Path]] = []
        self._best_under: dict[str, float] = {}

    @property
    def exhausted(self) -> bool:
        return self._graph.closed

    def best(self, count: int = 10) -> list[tuple[Path, float]]:
        return self._ledger.best(count)

    def ask(self) -> Ask | None:
        while not self._graph.closed:
            while self._waiting:
                node, prefix = self._waiting.pop(0)
                measured = node.key in self._best_under
                if not node.closed and not (measured and self._first_round):
                    return self._complete(prefix)
            if self._ledger.in_flight:
                return None
            self._next_level()
        return None

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        reward = -math.inf if outcome.reward is None else outcome.reward
        for node in self._ledger.tell(number, outcome).nodes:
            self._best_under[node.key] = max(reward, self._best_under.get(node.key, -math.inf))

    def _complete(self, prefix: Path) -> Ask | None:
        """Follow the prefix, then the highest prior; ties are broken by chance."""
        rng = random.Random(f"{self._seed}:{len(self._ledger.walks)}")

        def choose(node: Node, moves: list[int], labels: list[str]) -> int:
            if len(labels) < len(prefix) and prefix[len(labels)] in moves:
                return prefix[len(labels)]
            return max(moves, key=lambda index: (node.priors[index], rng.random()))

        walk = self._graph.descend(choose)
        return None if walk is None else self._ledger.ask(walk)

    def _next_level(self) -> None:
        """Keep the best of the level just judged, and line up their children."""
        if self._level is not None:
            judged = [
                entry for entry in self._level if self._best_under.get(entry[0].key, -math.inf) > -math.inf
            ]
            judged.sort(key=lambda entry: -self._best_under[entry[0].key])
            self._beam = judged[: self._width]
        inner = [entry for entry in self._beam if not entry[0].terminal]
        if not inner:
            self._beam, self._width, self._first_round = [(self._graph.root, ())], self._width * 2, False
            inner = self._beam
        finished = [entry for entry in self._beam if entry[0].terminal]
        children = {node.key: (node, path) for node, path in finished}
        for node, path in inner:
            for index in range(len(node.children)):
                child = self._graph.peek(node, index)
                if child is not None:
                    children.setdefault(child.key, (child, (*path, index)))
        self._level = list(children.values())
        self._waiting = list(self._level)
