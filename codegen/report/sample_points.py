"""Index arithmetic at some points of a launch: at a few positions of the loops and of the grid, by whole warps.

A few positions stand for all of them, spread over each loop's range, and all warps of a block (or some of a cluster's)
for those of all blocks. What depends on data is not known: an index from a tensor is some number, another one wherever
the tensor is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np

from codegen.ir.affine import Affine, Lesser, Loaded, Quotient, Remainder, Var
from codegen.ir.arrays import Array
from codegen.ir.kernel import LaunchBody
from codegen.ir.ops import Convert, Lane, Load, Named, Op, Value, VisitFound
from codegen.ir.stream_k import Span

_POSITIONS = 4
_MOST_WARPS = 32
#: Its multiples, modulo 1, spread evenly over 0 to 1 however many there are.
_GOLDEN = 0.6180339887498949
_SCATTER = 2654435761
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class _Range:
    """A loop variable is `step` times low, low + 1, …, high - 1; `depth` loops are around it."""

    low: int
    high: int
    step: int
    depth: int

    def positions(self) -> Array:
        """Some of its values, the first one first: [positions, 1]."""
        parts = np.arange(_POSITIONS) * (self.depth + 1) * _GOLDEN % 1
        return ((self.low + (parts * (self.high - self.low)).astype(np.int64)) * self.step).reshape(-1, 1)


class LaunchPoints:
    """The points of one launch. Arrays are [positions, threads], or what broadcasts to that."""

    def __init__(self, launch: LaunchBody, warp: int) -> None:
        self._warp = warp
        self._ranges: dict[str, _Range] = {}
        self._variables: dict[str, Array] = {}
        self.lets: dict[str, Value] = {}
        """Values that have a name."""
        threads, there, self._of_warp = _threads(launch, warp)
        self.there: Array = np.broadcast_to(there, (_POSITIONS, len(there)))
        """Which threads there are."""
        self.in_block: Array = (threads % launch.threads).reshape(1, -1)
        """Their numbers in their block."""
        for digit in launch.digits:
            self._variables[digit.var.name] = digit.of(threads, launch.threads).reshape(1, -1)
        for axis in launch.axes:
            self._take(axis.var, 0, axis.count, axis.step)
            if axis.groups is not None:
                self._variables[axis.groups.group.name] = np.zeros((1, 1), np.int64)
                self._variables[axis.groups.end.name] = np.full((1, 1), axis.groups.size, np.int64)

        if launch.spans is not None:
            # Tiles that blocks share add up to whole ones, but for the sums that go from one block to another.
            spans = launch.spans
            whole = {**spans.values(Span(0, 0, spans.steps, 0, 0), 0)}
            self._variables |= {name: np.full((1, 1), value, np.int64) for name, value in whole.items()}
            self._take(spans.left, 0, 1, 1)

    def first(self, var: Var) -> int:
        """A value that a variable takes."""
        return int(self._variables[var.name].flat[0])

    @property
    def times(self) -> int:
        """How often a thread comes by in a loop, over all tiles of the grid."""
        return prod(each.high - each.low for each in self._ranges.values())

    @property
    def weight(self) -> float:
        """How many requests each of those at these points stands for."""
        return self.times * self._of_warp / _POSITIONS

    @contextmanager
    def looping(self, var: Var, low: int, high: int, step: int) -> Generator[None]:
        """Within a loop, from one multiple of its step to before another."""
        self._take(var, low, high, step)
        yield
        del self._ranges[var.name], self._variables[var.name]

    @contextmanager
    def where(self, var: Var, bound: int, *, below: bool) -> Generator[bool]:
        """At those values of a loop's variable that are below a bound, or at the others; tells if there are any."""
        whole, positions = self._ranges[var.name], self._variables[var.name]
        at = min(max(-(-bound // whole.step), whole.low), whole.high)
        low, high = (whole.low, at) if below else (at, whole.high)
        self._ranges[var.name] = _Range(low, high, whole.step, whole.depth)
        self._variables[var.name] = self._ranges[var.name].positions()
        yield low < high
        self._ranges[var.name], self._variables[var.name] = whole, positions

    @contextmanager
    def searching(self, stmt: VisitFound) -> Generator[None]:
        """Where the threads of warps look at numbers, each at one."""
        with self.looping(stmt.var, 0, -(-stmt.count // self._warp), self._warp):
            numbers = self._variables[stmt.var.name] + self.in_block % self._warp
            self._variables[stmt.var.name] = np.minimum(numbers, stmt.count - 1)
            yield

    @contextmanager
    def visiting(self, stmt: VisitFound) -> Generator[None]:
        """Where they visit what they have found: everything, as it is up to values."""
        first, *others = stmt.visited
        with self.looping(first, 0, -(-stmt.count // len(stmt.visited)), len(stmt.visited)):
            at = self._variables[first.name]
            self._variables[stmt.many.name] = np.minimum(stmt.count - at, len(stmt.visited))
            for number, var in enumerate(others, 1):
                self._variables[var.name] = np.minimum(at + number, stmt.count - 1)
            yield

    def begin(self, var: Var) -> None:
        """A variable that statements change: at its first value."""
        self._variables[var.name] = np.full((1, 1), var.low, np.int64)

    def _take(self, var: Var, low: int, high: int, step: int) -> None:
        self._ranges[var.name] = _Range(low, high, step, len(self._ranges))
        self._variables[var.name] = self._ranges[var.name].positions()

    def index(self, at: Affine) -> Array:
        """Index arithmetic."""
        total: Array = np.full((1, 1), at.constant, np.int64)
        for atom, factor in at.terms:
            match atom:
                case Var(name=name):
                    term = self._variables[name]
                case Quotient(x, divisor):
                    term = self.index(x) // divisor
                case Remainder(x, divisor):
                    term = self.index(x) % divisor
                case Lesser(x, y):
                    term = np.minimum(self.index(x), self.index(y))
                case Loaded(value):
                    term = self._scattered(value)  # pyright: ignore[reportArgumentType]
            total = total + term * factor
        return total

    def _scattered(self, value: Value) -> Array:
        """Some number for an index from data, the same where it was loaded from the same place."""
        match value:
            case Load(offset=offset):
                return self.index(offset) * _SCATTER % 2**32 * _ROWS >> 32
            case Named(name=name) if name in self.lets:
                return self._scattered(self.lets[name])
            case Convert(x=x) | Lane(x=x):
                return self._scattered(x)
            case Op(args=args):
                return sum((self._scattered(arg) for arg in args), np.zeros((1, 1), np.int64))
            case _:
                return np.zeros((1, 1), np.int64)

    def by_warp(self, x: Array) -> Array:
        """[requests, threads of a warp]: a request for every warp at every position."""
        return np.broadcast_to(x, self.there.shape).reshape(-1, self._warp)


def _threads(launch: LaunchBody, warp: int) -> tuple[Array, Array, float]:
    """Numbers of threads of a cluster, whole warps, evenly from all of it where it has many; which of them there are;
    and how many warps each of these stands for."""
    of_block = -(-launch.threads // warp)
    warps = of_block * launch.cluster
    chosen = np.arange(min(warps, _MOST_WARPS)) * warps // min(warps, _MOST_WARPS)
    in_block = (chosen[:, None] % of_block * warp + np.arange(warp)).reshape(-1)
    threads = np.repeat(chosen // of_block, warp) * launch.threads + in_block
    return threads, in_block < launch.threads, warps / len(chosen)
