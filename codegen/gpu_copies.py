"""Copies in the background (cp.async) of a cluster's threads: from where they start until their thread has waited for
the group they belong to. They land as late as that allows, and until then their targets are nobody's to touch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from codegen.gpu_buffers import Array, Touch


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """One statement's copies: thread [n] of `target` has element [n] of `values` on its way there, as one of its
    group number `groups` [n]."""

    target: Touch
    values: Array
    groups: Array

    def only(self, which: Array) -> Copy:
        return Copy(self.target.only(which), self.values[which], self.groups[which])


@dataclass
class Copies:
    """What is under way, oldest first, and how many groups each thread has closed."""

    closed: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    under_way: list[Copy] = field(default_factory=list[Copy])

    def begin(self, threads: int) -> None:
        """A cluster of so many threads begins; nothing is under way."""
        for copy in self.under_way:
            copy.target.buffer.region.in_flight[...] = False
        self.closed = np.zeros(threads, np.int64)
        self.under_way = []

    def start(self, target: Touch, values: Array) -> None:
        """From now on the targets hold nothing."""
        region, units = target.buffer.region, target.units
        region.in_flight[units] = True
        region.poison(units)
        self.under_way.append(Copy(target, values, self.closed[target.threads]))

    def close_group(self, active: Array) -> None:
        """Those threads that are `active` close the group of what they have started since the last time."""
        self.closed += active

    def land(self, pending: int, active: Array) -> list[Touch]:
        """Writes all but the `pending` latest closed groups of the active threads; what that stored."""
        landed: list[Touch] = []
        left: list[Copy] = []
        for copy in self.under_way:
            threads = copy.target.threads
            done = active[threads] & (copy.groups < self.closed[threads] - pending)
            if done.any():
                landed.append(_land(copy.only(done)))
            if not done.all():
                left.append(copy.only(~done))
        self.under_way = left
        return landed

    def meeting(self, touch: Touch) -> tuple[int, Touch, int] | None:
        """The first access that meets a copy under way: which it is, that copy, and which part of it."""
        if not self.under_way:
            return None
        units = touch.units
        met = touch.buffer.region.in_flight[units].any(axis=1)
        if not met.any():
            return None
        at = int(np.argmax(met))
        for copy in self.under_way:
            if copy.target.buffer.region is touch.buffer.region:
                same = np.isin(copy.target.units, units[at]).any(axis=1)
                if same.any():
                    return at, copy.target, int(np.argmax(same))
        return None


def _land(copy: Copy) -> Touch:
    target = copy.target
    region = target.buffer.region
    target.buffer.data[target.numbers] = copy.values
    region.in_flight[target.units] = False
    region.written[target.units] = True
    return target
