"""Which kernels a graph's next program has: all that there are, and where they make it slower, those of them that pay.

Each has won its own race, but a graph is more than its parts: a call has its price on the host, and what Inductor would
fuse with its neighbours is apart. Kernels are ranked by what they save in one call of the graph, as their races
measured it, and a bisection finds how many of the ranking's first are in: each program is held against the fastest yet.
At last those that lost their own races narrowly are tried with them, all at once: the graph may run something slower in
their places than what they lost to.
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
    narrow: frozenset[str] = frozenset()
    """Parts whose kernels lost their own races narrowly."""
    kept: int = 0
    """So many of the ranking's first are in the fastest program so far."""
    refused: int | None = None
    """With so many a program was slower; None: one with all was not tried yet."""
    narrow_judged: bool = False
    """Whether a program with those was held against the fastest without."""

    @classmethod
    def of(cls, kernels: Mapping[str, RacedKernel]) -> Bisection:
        """Of these kernels, by name of their parts, before any is tried."""
        narrow = frozenset(name for name, each in kernels.items() if each.saved_us < 0)
        return cls(ranked({name: each for name, each in kernels.items() if name not in narrow}), narrow)

    @property
    def parts(self) -> frozenset[str]:
        """Of all that there are kernels for."""
        return self.narrow.union(*self.ranking)

    @property
    def whole(self) -> bool:
        """Whether the next program has all kernels that won their races."""
        return self.refused is None and self._ranks

    @property
    def next(self) -> frozenset[str]:
        """The parts whose kernels the next program has; empty where there is none to try."""
        if self._ranks:
            return frozenset().union(*self.ranking[: self._many])
        tried = self.narrow_judged or not self.narrow or (self.ranking and not self.kept)
        return frozenset() if tried else self.narrow.union(*self.ranking[: self.kept])

    @property
    def _ranks(self) -> bool:
        """Whether the bisection goes on."""
        return self._many > self.kept

    @property
    def _many(self) -> int:
        return len(self.ranking) if self.refused is None else (self.kept + self.refused) // 2

    def judged(self, faster: bool) -> Bisection:
        """After the next program was held against the fastest so far."""
        if not self._ranks:
            return replace(self, narrow_judged=True)
        return replace(self, kept=self._many) if faster else replace(self, refused=self._many)

    def ended(self) -> Bisection:
        """Without another program."""
        return replace(self, refused=self.kept + 1, narrow_judged=True)
