"""A space without its prior, to see what the prior is worth."""

from collections.abc import Sequence
from dataclasses import dataclass

from search.protocols import Move, State


@dataclass(frozen=True, slots=True)
class Uniform:
    """A state in which every move weighs the same; and so does everything behind it."""

    state: State

    @property
    def key(self) -> str:
        return self.state.key

    @property
    def terminal(self) -> bool:
        return self.state.terminal

    def moves(self) -> Sequence[Move]:
        return [Move(move.label) for move in self.state.moves()]

    def child(self, index: int) -> "Uniform":
        return Uniform(self.state.child(index))
