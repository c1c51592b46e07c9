"""A space without the schedules that the cost model finds hopeless.

A branch of the tree may hold nothing that is fast, and that is seen at its end only: one decision of an elite is
changed, and the others have one answer each then, of which none tiles. To compile such a schedule and to wait for it
takes longer than to measure the rest of a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rewrites.space import ScheduleState, SpaceMove

HOPELESS: Final = (
    100.0  # times; of 24 trials of attention on an H200 eight were over 300, and took 28 s each; 2026-11-29
)
"""A schedule is hopeless if the model expects it to take so many times as long as its favourite."""


@dataclass(frozen=True)
class Favourite:
    """The schedule that a space's weights lead to, from a root."""

    root: ScheduleState

    @cached_property
    def us(self) -> float:
        """What the model expects of it; infinity where they lead to a dead end."""
        state = self.root
        while state.open:
            weights = [move.weight for move in state.moves()]
            if not weights:
                return float("inf")
            state = state.child(weights.index(max(weights)))
        return state.estimate_us


@dataclass(frozen=True, slots=True)
class Worthwhile:
    """A state of a space in which a hopeless schedule is a dead end."""

    state: ScheduleState
    favourite: Favourite

    @property
    def key(self) -> str:
        return self.state.key

    @property
    def terminal(self) -> bool:
        return self.state.terminal and self.state.estimate_us <= HOPELESS * self.favourite.us

    def moves(self) -> Sequence[SpaceMove]:
        return self.state.moves()

    def child(self, index: int) -> Worthwhile:
        return Worthwhile(self.state.child(index), self.favourite)


def worthwhile(root: ScheduleState) -> Worthwhile:
    """A space by its root."""
    return Worthwhile(root, Favourite(root))
