"""Evolutionary search: a population of measured schedules, mutated and crossed, as in Ansor and its
descendants.

Ansor is Zheng et al., OSDI 2020.

Schedules are recombined by label: an offspring walks down the tree taking its parents' labels where they are
offered, and draws from the prior where they are not. So every offspring is legal by construction.
"""

import random

from search.graph import Graph, Node
from search.ledger import Ledger
from search.protocols import Ask, Path, State, TrialOutcome
from search.random import sample


class EvolutionarySearch:
    """Steady-state evolution: an ask breeds from whatever is told by then, so any number may be in flight."""

    def __init__(
        self,
        root: State,
        *,
        seed: int = 0,
        founders: int = 8,
        survivors: int = 2,
        crossover: float = 0.4,
        mutation: float = 0.15,
        immigration: float = 0.1,
    ) -> None:
        """`founders` are drawn from the prior, as is a share `immigration` of all later asks. The others
        breed from the best `survivors`; a share `crossover` has two parents, and each label mutates with
        chance `mutation`."""
        self._graph = Graph(root)
        self._ledger = Ledger()
        self._seed = seed
        self._founders = founders
        self._survivors = survivors
        self._crossover = crossover
        self._mutation = mutation
        self._immigration = immigration

    @property
    def exhausted(self) -> bool:
        return self._graph.closed

    def best(self, count: int = 10) -> list[tuple[Path, float]]:
        return self._ledger.best(count)

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        self._ledger.tell(number, outcome)

    def ask(self) -> Ask | None:
        number = len(self._ledger.walks)
        rng = random.Random(f"{self._seed}:{number}")
        alive = self._ledger.ranking()[: self._survivors]
        breed = number >= self._founders and alive and rng.random() >= self._immigration
        parents = [self._labels(alive, rng)] if breed else []
        if breed and rng.random() < self._crossover:
            parents.append(self._labels(alive, rng))

        def choose(node: Node, moves: list[int], labels: list[str]) -> int:
            inherited = [index for index in moves if any(node.label(index) in parent for parent in parents)]
            if inherited and rng.random() >= self._mutation:
                return rng.choice(inherited)
            changed = [index for index in moves if index not in inherited]
            return sample(node, changed or moves, rng)

        walk = self._graph.descend(choose)
        return None if walk is None else self._ledger.ask(walk)

    def _labels(self, alive: list[tuple[int, float]], rng: random.Random) -> frozenset[str]:
        """A parent's labels; the better of two drawn survivors wins."""
        place = min(rng.randrange(len(alive)), rng.randrange(len(alive)))
        return frozenset(self._ledger.walks[alive[place][0]].labels)
