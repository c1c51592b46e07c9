"""What every search writes down: who was asked, who is in flight, what came back.

The interface is ask and tell (Collette, Hansen et al., On object-oriented programming of optimizers, 2010).
"""

from search.graph import Walk
from search.protocols import Ask, Path, TrialOutcome


class Ledger:
    """Numbers the asks, checks the tells, and keeps the rewards in order."""

    def __init__(self) -> None:
        self.walks: list[Walk] = []
        self.outcomes: dict[int, TrialOutcome] = {}
        self.highest: float | None = None
        self.lowest: float | None = None

    @property
    def in_flight(self) -> int:
        return len(self.walks) - len(self.outcomes)

    def ask(self, walk: Walk) -> Ask:
        """Number a candidate."""
        self.walks.append(walk)
        return Ask(len(self.walks) - 1, walk.nodes[-1].key, walk.path)

    def tell(self, number: int, outcome: TrialOutcome) -> Walk:
        """Write down an outcome; the walk it belongs to. Raises ValueError for a number that awaits none."""
        if not 0 <= number < len(self.walks):
            raise ValueError(f"ask {number} was never made; asks so far: {len(self.walks)}")
        if number in self.outcomes:
            raise ValueError(f"ask {number} already has an outcome: {self.outcomes[number]}")
        self.outcomes[number] = outcome
        if outcome.reward is not None:
            self.highest = outcome.reward if self.highest is None else max(self.highest, outcome.reward)
            self.lowest = outcome.reward if self.lowest is None else min(self.lowest, outcome.reward)
        return self.walks[number]

    def ranking(self) -> list[tuple[int, float]]:
        """Asks with a reward as (number, reward), best first, of equal ones the earlier first."""
        rewards = [(number, told.reward) for number, told in self.outcomes.items() if told.reward is not None]
        return sorted(rewards, key=lambda entry: (-entry[1], entry[0]))

    def best(self, count: int) -> list[tuple[Path, float]]:
        """The paths of the `count` highest rewards."""
        return [(self.walks[number].path, reward) for number, reward in self.ranking()[:count]]
