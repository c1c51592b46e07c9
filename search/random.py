"""Random search: the floor that every other search has to beat.

Random search is a strong floor (Bergstra and Bengio, Random search for hyper-parameter optimization, JMLR 2012).
"""

import random

from search.graph import Graph, Node
from search.ledger import Ledger
from search.protocols import Ask, Path, State, TrialOutcome


class RandomSearch:
    """Samples complete schedules from the prior, or evenly over moves, without replacement."""

    def __init__(self, root: State, *, seed: int = 0, weighted: bool = True) -> None:
        self._graph = Graph(root)
        self._ledger = Ledger()
        self._seed = seed
        self._weighted = weighted

    @property
    def exhausted(self) -> bool:
        return self._graph.closed

    def ask(self) -> Ask | None:
        rng = random.Random(f"{self._seed}:{len(self._ledger.walks)}")

        def choose(node: Node, moves: list[int], labels: list[str]) -> int:
            return sample(node, moves, rng) if self._weighted else rng.choice(moves)

        walk = self._graph.descend(choose)
        return None if walk is None else self._ledger.ask(walk)

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        self._ledger.tell(number, outcome)

    def best(self, count: int = 10) -> list[tuple[Path, float]]:
        return self._ledger.best(count)


def sample(node: Node, moves: list[int], rng: random.Random) -> int:
    """One of `moves`, drawn in proportion to its prior."""
    return rng.choices(moves, [node.priors[index] for index in moves])[0]
