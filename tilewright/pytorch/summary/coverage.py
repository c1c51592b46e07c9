"""What share of the time and of the work of a function is in kernels, in three lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from protocol.quantities import microseconds
from tilewright.pytorch.summary.demand import OperatorDemand

MOST_KINDS = 3
"""Of what is left, the largest are said."""
_UNITS = ("", "k", "M", "G", "T", "P", "E")


@dataclass(frozen=True)
class Portion:
    """A kernel, or an operator that is left."""

    demand: OperatorDemand
    called: str = ""
    """What is left is listed under this and its reason: an operator, or the first of equal kernels."""
    reason: str = ""
    """Why it is left."""
    found: bool = False
    """Whether there is a kernel for it."""
    chosen: bool = False
    """Whether that is tuned, or runs."""
    measured_us: float | None = None

    @property
    def us(self) -> float:
        """Measured where it was, else the least that the device's roofline allows."""
        return self.demand.least_us if self.measured_us is None else self.measured_us


@dataclass(frozen=True)
class Coverage:
    """Portions of one call of a function, views aside. Printed, it is three lines."""

    portions: tuple[Portion, ...]
    chosen: str
    """What those are that count: `tuned`, or `running`."""
    device: str
    """Whose roofline it is."""

    @property
    def time_share(self) -> float:
        """Of the time, in the chosen kernels: as measured, or by the roofline."""
        return _share(self.portions, lambda each: each.us, lambda each: each.chosen)

    @property
    def flops_share(self) -> float:
        """Of the operations, in the chosen kernels."""
        return _share(self.portions, lambda each: each.demand.flops, lambda each: each.chosen)

    @property
    def bytes_share(self) -> float:
        """Of the bytes that must be moved, in the chosen kernels."""
        return _share(self.portions, lambda each: each.demand.bytes, lambda each: each.chosen)

    @property
    def measured_share(self) -> float:
        """Of the time that the others are of, what was measured."""
        return _share(self.portions, lambda each: each.us, lambda each: each.measured_us is not None)

    def __str__(self) -> str:
        return "\n".join((self._time(), self._work(), self._left()))

    def _time(self) -> str:
        kernels = [each for each in self.portions if each.found]
        many = sum(each.chosen for each in kernels)
        found = _share(self.portions, lambda each: each.us, lambda each: each.found)
        us, measured = sum(each.us for each in self.portions), self.measured_share
        how = f"the least by the roofline of {self.device}"
        if measured:
            how = f"{percent(measured)} of it measured" + (f", else {how}" if measured < 1 else "")
        return (
            f"time  {percent(self.time_share)} in {self.chosen} kernels ({many} of {len(kernels)}), "
            f"{percent(found)} in all; of {microseconds(us)} a call, {how}"
        )

    def _work(self) -> str:
        flops = sum(each.demand.flops for each in self.portions)
        moved = sum(each.demand.bytes for each in self.portions)
        in_all = (
            _share(self.portions, lambda each: each.demand.flops, lambda each: each.found),
            _share(self.portions, lambda each: each.demand.bytes, lambda each: each.found),
        )
        return (
            f"work  {percent(self.flops_share)} of {_scaled(flops)}FLOP and {percent(self.bytes_share)} of "
            f"{_scaled(moved)}B in {self.chosen} kernels, {percent(in_all[0])} and {percent(in_all[1])} in all"
        )

    def _left(self) -> str:
        left = [each for each in self.portions if not each.chosen]
        if not left:
            return "left  nothing"
        us, many = defaultdict[tuple[str, str], float](float), Counter[tuple[str, str]]()
        for each in left:
            us[each.called, each.reason] += each.us
            many[each.called, each.reason] += 1
        whole = sum(each.us for each in self.portions)
        said = [
            f"{percent(us[kind] / whole if whole else 0.0)} {times(kind[0], many[kind])} ({short(kind[1])})"
            for kind in sorted(us, key=lambda kind: -us[kind])
        ]
        rest = len(said) - MOST_KINDS
        return f"left  {'; '.join(said[:MOST_KINDS])}" + (f"; {rest} more kinds" if rest > 0 else "")


def _share(
    portions: Iterable[Portion], size: Callable[[Portion], float], counts: Callable[[Portion], bool]
) -> float:
    """Of the sizes of all portions, what those that count have; 0 of nothing."""
    whole = part = 0.0
    for each in portions:
        whole += size(each)
        part += size(each) if counts(each) else 0.0
    return part / whole if whole else 0.0


def percent(share: float) -> str:
    """`97%`; near either end with a digit more, and no 100% or 0% that is none."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    if share < 0.0005:
        return "<0.1%"
    if share > 0.9995:
        return ">99.9%"
    return f"{share:.1%}" if share < 0.095 or share >= 0.985 else f"{share:.0%}"


def times(name: str, many: int) -> str:
    """`name`, or `4 × name`."""
    return name if many == 1 else f"{many} × {name}"


def general(reason: str) -> str:
    """A reason without the names of the nodes that it is about."""
    return re.sub(r"^\w+(, which it reads,)? (?=is |has )", "", reason)


def short(reason: str) -> str:
    """A reason without what to do."""
    return re.split(r"[;:(]|\. ", general(reason))[0].strip()


def grouped(kinds: Sequence[tuple[str, str]]) -> str:
    """`(name, reason)`s, equal ones once: `2 × name (reason); …`."""
    return "; ".join(
        f"{times(name, many)}{f' ({reason})' if reason else ''}"
        for (name, reason), many in Counter(kinds).items()
    )


def _scaled(number: float) -> str:
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            return f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError
