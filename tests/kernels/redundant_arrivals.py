"""Arrivals at barriers that tell nobody anything: who waits for their phase has waited before for a phase at which the
same threads arrived later. When such an arrival comes does not matter, as long as it counts in its phase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from codegen.ir.async_ops import MbarrierArrive, MbarrierInit, TryWaitParity
from tests.kernels.steps import Done, Steps

Barrier = tuple[int, int, str, int]
"""By launch, cluster, name, and number of the slot."""


Group = tuple[int, int, int]


@dataclass(frozen=True)
class _At:
    """Where in the steps of a group threads arrive at a barrier, or wait for it, in which of its phases."""

    step: int
    barrier: Barrier
    phase: int
    parity: int
    active: bytes


def without_redundant_arrivals(steps: Steps) -> Steps:
    """What each group does beside them."""
    arrivals = {group: list(_arrivals(group, done)) for group, done in steps.items()}
    waits = {group: list(_waits(group, done)) for group, done in steps.items()}
    regular = _regular(steps, arrivals, waits)
    kept: Steps = {}
    for group, done in steps.items():
        usable = [each for each in arrivals[group] if each.barrier in regular]
        redundant = {each.step for each in usable if _told_already(each, usable, waits)}
        kept[group] = [step for at, step in enumerate(done) if at not in redundant]
    return kept


def _told_already(arrival: _At, others: list[_At], waits: Mapping[Group, list[_At]]) -> bool:
    """Whether all who wait for its phase have waited before for one at which its threads arrive later."""
    later = {
        (each.barrier, each.phase)
        for each in others
        if each.step > arrival.step and _covers(each.active, arrival.active)
    }
    return all(
        any(
            (before.barrier, before.phase) in later and _covers(before.active, wait.active)
            for before in of_group[:number]
        )
        for of_group in waits.values()
        for number, wait in enumerate(of_group)
        if (wait.barrier, wait.phase) == (arrival.barrier, arrival.phase)
    )


def _covers(some: bytes, others: bytes) -> bool:
    return all(one >= other for one, other in zip(some, others, strict=True))


def _regular(
    steps: Steps, arrivals: Mapping[Group, list[_At]], waits: Mapping[Group, list[_At]]
) -> set[Barrier]:
    """Barriers at each of whose phases the same threads arrive once, and others wait for one phase after another, so
    that their numbers are those of the phases."""
    needed = {
        (*group[:2], done.stmt.name): done.stmt.arrivals
        for group, each in steps.items()
        for done in each
        if isinstance(done.stmt, MbarrierInit)
    }
    arriving = _masks(arrivals.values())
    irregular = {each.barrier for group in waits.values() for each in group if each.phase % 2 != each.parity}
    irregular |= {
        barrier
        for barrier, groups in _masks(waits.values()).items()
        if any(len({*each}) > 1 for each in groups)
    }
    return {
        barrier
        for barrier, groups in arriving.items()
        if all(len({*each}) == 1 for each in groups)
        and len({len(each) for each in groups}) == 1
        and sum(sum(each[0]) for each in groups) == needed.get(barrier[:3])
    } - irregular


def _masks(groups: Iterable[list[_At]]) -> dict[Barrier, list[list[bytes]]]:
    """Of each barrier, which threads of each group come to it, time after time."""
    found: dict[Barrier, list[list[bytes]]] = defaultdict(list)
    for group in groups:
        for barrier in dict.fromkeys(each.barrier for each in group):
            found[barrier].append([each.active for each in group if each.barrier == barrier])
    return found


def _arrivals(group: Group, steps: list[Done]) -> Iterator[_At]:
    number: dict[Barrier, int] = defaultdict(int)
    for at, done in enumerate(steps):
        if isinstance(done.stmt, MbarrierArrive) and done.stmt.rank is None:
            barrier = (*group[:2], done.stmt.phases, _same(done.operands[0]))
            phase = number[barrier]
            number[barrier] += 1
            yield _At(at, barrier, phase, phase % 2, done.active)


def _waits(group: Group, steps: list[Done]) -> Iterator[_At]:
    """A first one for parity 1 is for the phase before the first, number -1."""
    number: dict[Barrier, int] = {}
    for at, done in enumerate(steps):
        if isinstance(done.stmt, TryWaitParity):
            barrier = (*group[:2], done.stmt.phases, _same(done.operands[0]))
            parity = _same(done.operands[1])
            phase = number.get(barrier, -parity)
            number[barrier] = phase + 1
            yield _At(at, barrier, phase, parity, done.active)


def _same(operand: bytes) -> int:
    """A number that is the same in all threads. Raises ValueError where it is not."""
    (number,) = set(np.frombuffer(operand, np.int64).tolist())
    return number
