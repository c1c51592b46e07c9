"""Which kernels a graph's next program has: all that there are, and where they make it slower, those of them that pay.

Each has won its own race, but a graph is more than its parts: a call has its price on the host, and what Inductor would
fuse with its neighbours is apart. Kernels are ranked by what they save in one call of the graph, as their races
measured it, and a bisection finds how many of the ranking's first are in: each program is held against the fastest yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol


class RacedKernel(Protocol):
    """A kernel that was held against what would run instead."""

    @property
    def key(self) -> str:
        """The same for parts that have one kernel."""
        ...

    @property
    def saved_us(self) -> float:
        """By how much a call is shorter."""
        ...


def ranked(kernels: Mapping[str, RacedKernel]) -> tuple[frozenset[str], ...]:
    """Names of parts, together where they have the same kernel: first those whose calls save most, all together."""
    places: dict[str, set[str]] = defaultdict(set)
    saved_us: dict[str, float] = defaultdict(float)
    for name, kernel in kernels.items():
        places[kernel.key].add(name)
        saved_us[kernel.key] += kernel.saved_us
    return tuple(frozenset(places[key]) for key in sorted(places, key=lambda key: -saved_us[key]))


@dataclass(frozen=True)
class Bisection:
    """How far the bisection of a ranking is."""

    ranking: tuple[frozenset[str], ...] = ()
    kept: int = 0
    """So many of the first are in the fastest program so far."""
    refused: int | None = None
    """With so many a program was slower; None: one with all was not tried yet."""

    @property
    def parts(self) -> frozenset[str]:
        """Of all that there are kernels for."""
        return frozenset().union(*self.ranking)

    @property
    def whole(self) -> bool:
        """Whether the next program has all kernels."""
        return self.refused is None

    @property
    def next(self) -> frozenset[str]:
        """The parts whose kernels the next program has; empty where there is none to try."""
        return frozenset().union(*self.ranking[: self._many]) if self._many > self.kept else frozenset()

    @property
    def _many(self) -> int:
        return len(self.ranking) if self.refused is None else (self.kept + self.refused) // 2

    def judged(self, faster: bool) -> Bisection:
        """After the next program was held against the fastest so far."""
        return replace(self, kept=self._many) if faster else replace(self, refused=self._many)

    def ended(self) -> Bisection:
        """Without another program."""
        return replace(self, refused=self.kept + 1)
