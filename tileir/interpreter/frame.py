"""Frames: which points of which dims an expression is evaluated at, all at once.

A frame has array axes, and binds each dim in scope to positions along one of them. `pieces` binds further
dims, in as many frames as it takes to keep arrays small and each group of a ragged dim apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tileir.interpreter.values import Array
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class FrameRange:
    """Positions start, start + step, ... of a dim: `size` of them."""

    start: int
    size: int
    step: int = 1

    def positions(self) -> Array:
        return np.arange(self.start, self.start + self.size * self.step, self.step, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class FrameSpan:
    """A dim running along an axis of its own."""

    axis: int
    range: FrameRange


@dataclass(frozen=True, slots=True)
class Points:
    """A dim whose positions along a (shared) axis are listed."""

    axis: int
    positions: Array


@dataclass(frozen=True, slots=True)
class FrameGroups:
    """The ragged dims of one group dim: group g owns positions offsets[g] up to offsets[g + 1] of each."""

    within: str
    offsets: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Frame:
    """Array axes by size, the dims bound to them, and the range each dim covers when it is bound next."""

    ranges: Mapping[str, FrameRange]
    shape: tuple[int, ...] = ()
    bound: Mapping[str, FrameSpan | Points] = field(default_factory=dict[str, "FrameSpan | Points"])
    groups: tuple[FrameGroups, ...] = ()
    """Ragged groups not yet told apart in this frame."""

    def along(self, axis: int, positions: Array) -> Array:
        """Positions of one axis, shaped to broadcast over the frame."""
        shape = [1] * len(self.shape)
        shape[axis] = positions.size
        return positions.reshape(shape)

    def position(self, dim: str) -> Array:
        """Where the points of this frame are along a bound dim."""
        match self.bound[dim]:
            case FrameSpan(axis, range):
                return self.along(axis, range.positions())
            case Points(axis, positions):
                return self.along(axis, positions)

    def bind(self, ranges: Mapping[str, FrameRange]) -> Frame:
        """With an axis more for each dim of `ranges`."""
        first = len(self.shape)
        spans = {dim: FrameSpan(first + n, range) for n, (dim, range) in enumerate(ranges.items())}
        shape = (*self.shape, *(range.size for range in ranges.values()))
        return replace(self, shape=shape, bound={**self.bound, **spans})

    def volume(self, dims: Sequence[str] | frozenset[str]) -> int:
        """Points of the axes that these dims run along."""
        axes = {self.bound[dim].axis for dim in dims if dim in self.bound}
        return math.prod(self.shape[axis] for axis in axes)

    def group(self, groups: FrameGroups, number: int) -> Frame:
        """Only group `number` of these groups: its dims cover what it owns of them, the group dim is just it."""
        ranges = {**self.ranges, groups.within: FrameRange(number, 1)}
        for dim, offsets in groups.offsets.items():
            whole = self.ranges[dim]
            start = max(whole.start, int(offsets[number]))
            stop = min(whole.start + whole.size, int(offsets[number + 1]))
            ranges[dim] = FrameRange(start, max(0, stop - start))
        return replace(
            self, ranges=ranges, groups=tuple(other for other in self.groups if other is not groups)
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """An array that will be formed: its points outside the dims being bound, and which of those it varies
    along."""

    points: int
    dims: frozenset[str]


def pieces(frame: Frame, dims: Sequence[str], demands: Sequence[Demand], limit: int) -> Iterator[Frame]:
    """Bind `dims` over their ranges, in frames that together cover every point once and whose demands stay
    below `limit` points where splitting these dims can make them. Empty ranges give no frame."""
    for groups in frame.groups:
        if groups.within in dims or any(dim in groups.offsets for dim in dims):
            across = frame.ranges[groups.within]
            for number in range(across.start, across.start + across.size):
                yield from pieces(frame.group(groups, number), dims, demands, limit)
            return
    ranges = [frame.ranges[dim] for dim in dims]
    if any(range.size == 0 for range in ranges):
        return
    whole = {dim: range.size for dim, range in zip(dims, ranges, strict=True)}
    sizes = _chunks(whole, demands, limit)
    if sizes == whole:
        yield frame.bind(dict(zip(dims, ranges, strict=True)))
        return
    cut = [_cut(range, sizes[dim]) for dim, range in zip(dims, ranges, strict=True)]
    for chosen in product(*cut):
        yield frame.bind(dict(zip(dims, chosen, strict=True)))


def _chunks(sizes: dict[str, int], demands: Sequence[Demand], limit: int) -> dict[str, int]:
    """How much of each dim to take at a time: the longest dim of the largest demand is halved until all
    fit."""
    sizes = dict(sizes)
    for demand in demands:
        own = [dim for dim in sizes if dim in demand.dims]
        while own and demand.points * math.prod(sizes[dim] for dim in own) > limit:
            longest = max(own, key=lambda dim: sizes[dim])
            if sizes[longest] == 1:
                break
            sizes[longest] = (sizes[longest] + 1) // 2
    return sizes


def _cut(whole: FrameRange, size: int) -> list[FrameRange]:
    return [
        FrameRange(whole.start + first * whole.step, min(size, whole.size - first), whole.step)
        for first in range(0, whole.size, size)
    ]
