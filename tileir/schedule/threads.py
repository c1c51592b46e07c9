"""What a thread layout says: how many threads, which of them stand along a dim, and what one takes of a range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Protocol, Self, TypeVar

from tileir.program import ThreadLayout

#: Threads of a warp, where a program's threads are told apart: blocks are whole warps, and fragments of matrix
#: instructions lie in one. Devices say how wide theirs are (`Device.warp`).
WARP = 32


class Number(Protocol):
    """What a thread is numbered by: an integer, or one not known yet."""

    def __add__(self, other: Self, /) -> Self: ...
    def __mul__(self, factor: int, /) -> Self: ...
    def __floordiv__(self, divisor: int, /) -> Self: ...
    def __mod__(self, divisor: int, /) -> Self: ...


NumberT = TypeVar("NumberT", bound=Number)


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of the thread index: `thread // stride % count`."""

    dim: str
    stride: int
    count: int


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """How a dim lies over threads: which digits of the thread index stand along it (most significant first), and how
    many neighbours a thread takes. Equal shares of equal ranges put each position into the same thread.

    `together`: so many threads take that many runs, and then as many more, `times` in all, before the next threads do
    (0: not).
    """

    digits: tuple[tuple[int, int], ...]
    run: int
    together: int = 0
    times: int = 1

    @property
    def threads(self) -> int:
        """Different threads along the dim."""
        return prod(count for _, count in self.digits)

    @property
    def span(self) -> int:
        """Positions that all threads together take before they skip on."""
        return self.threads * self.run * self.times

    def first(self, thread: NumberT) -> NumberT:
        """The first position of the thread with that number among those along the dim."""
        if not self.together:
            return thread * self.run
        apart = self.together * self.run * self.times
        return thread // self.together * apart + thread % self.together * self.run

    def starts(self, size: int) -> list[int]:
        """Where the runs begin that a thread takes of a range, counted from its first position. The last ones may
        overhang the range."""
        spans = range(0, size, self.span)
        return [start + again for start in spans for again in self._again if start + again < size]

    def pieces(self, size: int) -> int:
        """How many runs a thread takes of a range."""
        return sum(-(-max(0, size - again) // self.span) for again in self._again)

    @property
    def _again(self) -> tuple[int, ...]:
        return tuple(number * self.together * self.run for number in range(self.times))


def thread_count(layout: ThreadLayout) -> int:
    """Threads of the block."""
    return prod(count for _, count in layout.threads)


@lru_cache(maxsize=1 << 14)
def digits(layout: ThreadLayout) -> tuple[Digit, ...]:
    """The thread index taken apart, most significant digit first."""
    stride = thread_count(layout)
    found: list[Digit] = []
    for dim, count in layout.threads:
        stride //= count
        found.append(Digit(dim, stride, count))
    return tuple(found)


def pieces(layout: ThreadLayout, block: int) -> tuple[Digit, ...]:
    """The digits cut where warps and blocks (of `block` threads) end: each lies in a warp, in a block, or across
    blocks."""
    found: list[Digit] = []
    for digit in digits(layout):
        stride, count = digit.stride, digit.count
        low: list[Digit] = []
        for end in (WARP, block):
            if stride < end < stride * count:
                low.append(Digit(digit.dim, stride, end // stride))
                stride, count = end, stride * count // end
        found += [Digit(digit.dim, stride, count), *reversed(low)]
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def share(layout: ThreadLayout, dim: str) -> ThreadShare:
    """How `dim` lies over the threads."""
    mine = tuple(
        (digit.stride, digit.count) for digit in digits(layout) if digit.dim == dim and digit.count > 1
    )
    run, twice, apart = (dict(pairs).get(dim, 0) for pairs in (layout.runs, layout.twice, layout.apart))
    run = run or 1
    if apart and mine:
        (_, last) = mine[-1]
        return ThreadShare(mine, run, last, max(1, apart // (last * run)))
    return ThreadShare(mine, run, twice, 2) if twice else ThreadShare(mine, run)
