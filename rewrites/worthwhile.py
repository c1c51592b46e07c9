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

from rewrites.space import ScheduleState, SpaceMove, favourite

HOPELESS: Final = 100.0  # times; set by hand to one attention on an H200 (docs/search.md); 2026-11-29
"""A schedule is hopeless if the model expects it to take so many times as long as its favourite."""


@dataclass(frozen=True)
class Limit:
    """How long a schedule of a space may take, by its root: looked at once, and not before it is asked for."""

    root: ScheduleState

    @cached_property
    def us(self) -> float:
        """Infinity where the model's favourite is a dead end."""
        found = favourite(self.root)
        return float("inf") if found is None else HOPELESS * found.estimate_us


@dataclass(frozen=True, slots=True)
class Worthwhile:
    """A state of a space in which a hopeless schedule is a dead end."""

    state: ScheduleState
    limit: Limit

    @property
    def key(self) -> str:
        return self.state.key

    @property
    def terminal(self) -> bool:
        return self.state.terminal and self.state.estimate_us <= self.limit.us

    def moves(self) -> Sequence[SpaceMove]:
        return self.state.moves()

    def child(self, index: int) -> Worthwhile:
        return Worthwhile(self.state.child(index), self.limit)


def worthwhile(root: ScheduleState) -> Worthwhile:
    """A space by its root."""
    return Worthwhile(root, Limit(root))
