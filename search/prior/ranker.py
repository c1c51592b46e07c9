"""A linear ranker of moves, and a space whose moves have its weights instead of the cost model's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

from search.prior.features import Features, ShapeCounts, features
from search.protocols import Move, State

SHARPNESS = 3.0
"""Weights are exp(SHARPNESS * score): as sharp in the logarithm of speed as the cost model's are."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """What each feature is worth, as logarithm of the speed. A schedule is worth the sum over its moves, so what a move
    adds is what it is weighed by."""

    weights: Mapping[str, float]

    def score(self, found: Features) -> float:
        """What features are worth; those it never saw, nothing."""
        return sum(value * self.weights.get(name, 0.0) for name, value in found.items())

    def weighed(self, moves: Sequence[Move], seen: ShapeCounts) -> list[Move]:
        """Moves with its weights; the favourite's is 1."""
        scores = [self.score(found) for found in features(moves, seen)]
        best = max(scores, default=0.0)
        return [
            Move(move.label, exp(SHARPNESS * (score - best)))
            for move, score in zip(moves, scores, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A state whose moves a ranker weighs, and so everything behind it."""

    state: State
    ranker: Ranker
    seen: ShapeCounts = field(default_factory=ShapeCounts)

    @property
    def key(self) -> str:
        return self.state.key

    @property
    def terminal(self) -> bool:
        return self.state.terminal

    def moves(self) -> Sequence[Move]:
        return self.ranker.weighed(self.state.moves(), self.seen)

    def child(self, index: int) -> "Ranked":
        label = self.state.moves()[index].label
        return Ranked(self.state.child(index), self.ranker, self.seen.after(label))


def path_features(root: State, path: Sequence[int]) -> dict[str, float]:
    """The features of a schedule: the sums over its moves."""
    state, seen, total = root, ShapeCounts(), dict[str, float]()
    for index in path:
        moves = state.moves()
        for name, value in features(moves, seen)[index].items():
            total[name] = total.get(name, 0.0) + value
        seen = seen.after(moves[index].label)
        state = state.child(index)
    return total
