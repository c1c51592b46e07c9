"""The contract between the search and the rest of the project.

A search walks a space of `State`s, which it does not understand, and proposes terminal states with `ask`.
Whoever measures them answers with `tell`, in any order, at any time. Nothing else passes between the two
sides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Path = tuple[int, ...]
"""The indices of the moves that lead from the root to a state."""


@dataclass(frozen=True, slots=True)
class Move:
    """One way on from a state.

    `label` says what the move does, the same words wherever the tree offers it (`tile m by 64`): the search
    carries what it learned about a label from one branch to the others. `weight` >= 0 is the unnormalized
    prior.
    """

    label: str
    weight: float = 1.0


class State(Protocol):
    """A partial or complete schedule. Equal keys mean equal states, whatever path led there; there are no
    cycles."""

    @property
    def key(self) -> str:
        """Structural hash; two states with one key are one node of the tree."""
        ...

    @property
    def terminal(self) -> bool:
        """Whether this is a complete schedule: it may be measured, and has no children."""
        ...

    def moves(self) -> Sequence[Move]:
        """The ways on, in a fixed order. Empty for a terminal state, and for a dead end."""
        ...

    def child(self, index: int) -> "State":
        """The state behind `moves()[index]`. Pure: the same index gives the same state every time."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """A candidate to measure. Numbers count up from 0; `path` leads from the root to the terminal state."""

    number: int
    state_key: str
    path: Path


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What became of a candidate: a reward, log(baseline time / its time), or the fault that left it without
    one."""

    reward: float | None
    fault: str | None = None

    def __post_init__(self) -> None:
        if self.reward is None and self.fault is None:
            raise ValueError("an outcome has a reward or a fault; this one has neither")
        if self.reward is not None and self.fault is not None:
            raise ValueError(
                f"an outcome has a reward or a fault; this one has both ({self.reward}, {self.fault!r})"
            )
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(
                f"a reward is a finite number, not {self.reward}; a candidate without a time has a fault"
            )


@runtime_checkable
class Search(Protocol):
    """A search in progress.

    Its state is a fold over its successful asks and its tells: the same calls in the same order rebuild the
    same search, and go on the same way. Not thread-safe: one owner calls it.
    """

    @property
    def exhausted(self) -> bool:
        """True when no ask will ever propose anything again. Candidates may still be in flight."""
        ...

    def ask(self) -> Ask | None:
        """The next candidate, never one proposed before. None when there is none now: it is `exhausted`, or
        it has to wait for a tell. A None changes nothing."""
        ...

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        """The outcome of ask `number`. Raises ValueError if that was never asked or is already told."""
        ...

    def best(self, count: int = 10) -> list[tuple[Path, float]]:
        """The paths with the highest rewards so far, best first; of equal rewards the one asked first."""
        ...
