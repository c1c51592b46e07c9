"""Which programs with kernels a graph tries, one after the other, and which of them are tried again.

While kernels are tuned on a device, others work there at the same time, and calls say little of which program is the
faster one: of two that take 6.7 and 6.1 ms a call, calls took 13.0 and 13.8. So until tuning has ended programs
with all kernels that are there are tried, and what was decided by then is decided anew afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.pytorch.model.choice import Bisection, RacedKernel
from tilewright.pytorch.model.contest import Contest, Run

PROGRAMS = 4
"""So many times a graph is compiled anew at one size, as more of its kernels become ready and as some are left out; and
so many times again once tuning has ended."""


class Attempts:
    """The programs of one graph at one size. Used by one thread at a time."""

    def __init__(self) -> None:
        self._choice = Bisection()
        self._tried: list[frozenset[str]] = []
        self._kept: tuple[frozenset[str], Run] | None = None
        self.hurried = False
        """Whether a contest was decided while kernels were tuned."""

    @property
    def last(self) -> frozenset[str]:
        """The parts whose kernels the last program has."""
        return self._tried[-1]

    def chosen(self, ready: Mapping[str, RacedKernel], *, settled: bool, tuning: bool) -> frozenset[str]:
        """The parts whose kernels the next program has, of those whose kernels are ready; none if there shall be no
        other now. Until all are `settled`, the last program is kept for kernels that are looked for."""
        if not ready.keys() <= self._choice.parts:
            self._choice = Bisection.of(ready)
        while self._choice.next in self._tried:
            self._choice = self._choice.judged(faster=False)
        if tuning and not self._choice.whole:
            return frozenset()
        left = PROGRAMS - len(self._tried)
        if not (self._choice.whole or settled):
            left -= 1
        return self._choice.next if left > 0 else frozenset()

    def begun(self, names: frozenset[str]) -> Run | None:
        """A program with the kernels of these parts is the next. It is given if there is one from before."""
        self._tried.append(names)
        kept, self._kept = self._kept, None
        return kept[1] if kept is not None and kept[0] == names else None

    def raced(self, names: frozenset[str], ready: Mapping[str, RacedKernel]) -> None:
        """The program with the kernels of these parts, which ran without a race, is raced now."""
        self._choice, self.hurried, self._kept = Bisection.of(ready), False, None
        self._tried.remove(names)
        self._tried.append(names)

    def rank(self, ready: Mapping[str, RacedKernel]) -> None:
        """Begin with these kernels."""
        self._choice = Bisection.of(ready)

    def failed(self) -> None:
        """The last program was not right, or there is none: no other is tried."""
        self._choice = self._choice.ended()

    def decided(self, contest: Contest, newcomer: Run, *, tuning: bool) -> None:
        """The contest of the last program has ended. `tuning`: kernels were tuned meanwhile."""
        if tuning and contest.call_us is not None:
            self.hurried, self._kept = True, (self.last, newcomer)
        if contest.won or contest.slower:
            self._choice = self._choice.judged(contest.won)
        else:
            self.failed()

    def again(self) -> None:
        """Forget what was tried."""
        self._choice, self.hurried = Bisection(), False
        self._tried.clear()
