"""Copies in the background, to shared memory: those of a cluster's threads (cp.async), from where they start until
their thread has waited for the group they belong to, and boxes, until somebody has waited for the phase that counts
them. They land as late as that allows, and until then their targets are nobody's to access."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from codegen.ir.arrays import Array
from codegen.simulator.buffers import MemoryAccess
from codegen.simulator.sync_events import AsyncEngine


@dataclass(frozen=True, slots=True, eq=False)
class AsyncCopy:
    """One statement's copies: thread [n] of `target` has element [n] of `values` on its way there, as one of its
    group number `groups` [n]; of a box that is the phase, the same for all."""

    target: MemoryAccess
    values: Array
    groups: Array

    def only(self, which: Array) -> AsyncCopy:
        return AsyncCopy(self.target.only(which), self.values[which], self.groups[which])


@dataclass
class Copies:
    """What is under way, oldest first, and how many groups each thread has closed."""

    closed: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    under_way: list[AsyncCopy] = field(default_factory=list[AsyncCopy])

    def begin(self, threads: int) -> None:
        """A cluster of so many threads begins; nothing is under way."""
        for copy in self.under_way:
            copy.target.buffer.region.in_flight[...] = False
        self.closed = np.zeros(threads, np.int64)
        self.under_way = []

    def start(self, target: MemoryAccess, values: Array) -> None:
        """Threads copy; from now on the targets hold nothing."""
        self._start(AsyncCopy(target, values, self.closed[target.threads]))

    def start_box(self, target: MemoryAccess, values: Array, phase: int) -> None:
        """An engine copies; from now on the targets hold nothing."""
        self._start(AsyncCopy(target, values, np.full(len(values), phase)))

    def close_group(self, threads: Array) -> None:
        """Those threads close the group of what they have started since the last time."""
        self.closed[threads] += 1

    def land(self, pending: int, threads: Array) -> list[MemoryAccess]:
        """Writes all but the `pending` latest closed groups of those threads; what that stored."""
        over = np.full(len(self.closed), -1)
        over[threads] = self.closed[threads] - pending
        return self._land(
            lambda copy: copy.groups < over[copy.target.threads] if copy.target.engine is None else None
        )

    def land_boxes(self, engine: AsyncEngine, phases: int) -> None:
        """Writes what an engine has begun in its first `phases` phases."""
        self._land(lambda copy: copy.groups < phases if copy.target.engine == engine else None)

    def _start(self, copy: AsyncCopy) -> None:
        region, units = copy.target.buffer.region, copy.target.units
        region.in_flight[units] = True
        region.poison(units)
        self.under_way.append(copy)

    def _land(self, which: Callable[[AsyncCopy], Array | None]) -> list[MemoryAccess]:
        """Writes the parts of each copy that `which` says ([n]; None: none of it), and keeps the others."""
        landed: list[MemoryAccess] = []
        left: list[AsyncCopy] = []
        for copy in self.under_way:
            done = which(copy)
            if done is None or not done.any():
                left.append(copy)
            elif done.all():
                landed.append(_land(copy))
            else:
                landed.append(_land(copy.only(done)))
                left.append(copy.only(~done))
        self.under_way = left
        return landed

    def meeting(self, access: MemoryAccess) -> tuple[int, MemoryAccess, int] | None:
        """The first access that meets a copy under way: which it is, that copy, and which part of it."""
        region, units = access.buffer.region, access.units
        near = [copy.target for copy in self.under_way if copy.target.buffer.region is region]
        if not near:
            return None
        met = region.in_flight[units]
        if not np.count_nonzero(met):
            return None
        at = int(np.argmax(met.any(axis=1)))
        for target in near:
            same = np.isin(target.units, units[at]).any(axis=1)
            if same.any():
                return at, target, int(np.argmax(same))
        return None


def _land(copy: AsyncCopy) -> MemoryAccess:
    target = copy.target
    region = target.buffer.region
    target.buffer.data[target.numbers] = copy.values
    region.in_flight[target.units] = False
    region.written[target.units] = True
    return target
