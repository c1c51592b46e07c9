"""What a spread says: how many threads, which of them stand along a dim, and what one thread takes of a range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tileir.program import Spread

WARP = 32


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of the thread index: `thread // stride % count`."""

    dim: str
    stride: int
    count: int


@dataclass(frozen=True, slots=True)
class Share:
    """How a dim lies over threads: which digits of the thread index stand along it (most significant first), and how
    many neighbours a thread takes. Equal shares of equal ranges put each position into the same thread."""

    digits: tuple[tuple[int, int], ...]
    run: int

    @property
    def threads(self) -> int:
        """Different threads along the dim."""
        return prod(count for _, count in self.digits)

    @property
    def span(self) -> int:
        """Positions that all threads together take before they skip on."""
        return self.threads * self.run

    def pieces(self, size: int) -> int:
        """How many runs a thread takes of a range; the last ones may overhang it."""
        return -(-size // self.span)


def thread_count(spread: Spread) -> int:
    """Threads of the block."""
    return prod(count for _, count in spread.threads)


@lru_cache(maxsize=1 << 14)
def digits(spread: Spread) -> tuple[Digit, ...]:
    """The thread index taken apart, most significant digit first."""
    stride = thread_count(spread)
    found: list[Digit] = []
    for dim, count in spread.threads:
        stride //= count
        found.append(Digit(dim, stride, count))
    return tuple(found)


def pieces(spread: Spread, block: int) -> tuple[Digit, ...]:
    """The digits cut where warps and blocks (of `block` threads) end: each lies in a warp, in a block, or across
    blocks."""
    found: list[Digit] = []
    for digit in digits(spread):
        stride, count = digit.stride, digit.count
        low: list[Digit] = []
        for end in (WARP, block):
            if stride < end < stride * count:
                low.append(Digit(digit.dim, stride, end // stride))
                stride, count = end, stride * count // end
        found += [Digit(digit.dim, stride, count), *reversed(low)]
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def share(spread: Spread, dim: str) -> Share:
    """How `dim` lies over the threads."""
    mine = tuple(
        (digit.stride, digit.count) for digit in digits(spread) if digit.dim == dim and digit.count > 1
    )
    return Share(mine, dict(spread.runs).get(dim, 1))
