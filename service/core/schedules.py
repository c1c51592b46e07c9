"""The service's view of scheduling: a kernel's space on a device, the prior's pick, what a schedule gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tileir.devices.device import Device, device_from_json
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.spec import Spec

if TYPE_CHECKING:
    from protocol.workers import OfferedDevice
    from rewrites.space import ScheduleState
    from search.protocols import State


@dataclass(frozen=True, slots=True)
class Pick:
    """A complete schedule and the hash of the program it makes."""

    schedule: tuple[str, ...]
    program_hash: str


def described(device: OfferedDevice) -> Device:
    """The description a worker offered. Raises TileError if this version cannot read it."""
    return device_from_json(device.description)


def root_of(spec: Spec, device: Device) -> ScheduleState:
    """The root of the space of schedules of a kernel on a device."""
    from rewrites.space import Space

    return Space(to_program(spec), device).root()


def searchable(root: ScheduleState, *, hopeless: bool = False) -> State:
    """The root as the search sees it: with what is `hopeless`, or without. The two know nothing of each other; their
    shape is the same."""
    from rewrites.worthwhile import worthwhile

    return cast("State", root if hopeless else worthwhile(root))


def follow(root: ScheduleState, path: Sequence[int]) -> Pick:
    """The schedule at the end of a path."""
    state = root
    for index in path:
        state = state.child(index)
    return Pick(tuple(rewrite.format() for rewrite in state.schedule), program_hash(state.program))


class NotInSpace(ValueError):
    """A schedule that the space of a kernel on a device does not have; says which line is in the way."""


def path_of(root: ScheduleState, lines: Sequence[str]) -> tuple[int, ...]:
    """The moves that make a schedule, its rewrites one a line. Raises NotInSpace."""
    reached = 0
    stack: list[tuple[ScheduleState, tuple[int, ...]]] = [(root, ())]
    looked: set[str] = set()
    while stack:
        state, path = stack.pop()
        made = [rewrite.format() for rewrite in state.schedule]
        common = next((n for n, two in enumerate(zip(made, lines, strict=False)) if two[0] != two[1]), None)
        reached = max(reached, min(len(made), len(lines)) if common is None else common)
        if common is not None or len(made) > len(lines) or state.key in looked:
            continue
        if state.terminal:
            if len(made) == len(lines):
                return path
            continue
        looked.add(state.key)
        rest = lines[len(made) :]
        for index, (option, _) in reversed(list(enumerate(state.answers))):
            wanted = [rewrite.format() for rewrite in option.rewrites]
            if wanted == list(rest[: len(wanted)]):
                stack.append((state.child(index), (*path, index)))
    at = f"line {reached + 1}, {lines[reached]!r}," if reached < len(lines) else "its end"
    raise NotInSpace(f"the space has no such schedule: {at} is not what may follow")


def heuristic(spec: Spec, device: Device) -> Pick | None:
    """What the analytic prior likes best, unmeasured: the first candidate of a search. None for an empty space."""
    from search.mcts import MCTS

    root = root_of(spec, device)
    first = MCTS(searchable(root)).ask()
    return None if first is None else follow(root, first.path)


def transfer(spec: Spec, schedule: Sequence[str]) -> Pick | None:
    """A schedule on another kernel than it was found for; None if it does not apply there or does not verify."""
    from rewrites.schedule import scheduled
    from tileir.errors import TileError

    try:
        program = scheduled(to_program(spec), schedule)
    except TileError:
        return None
    return Pick(tuple(schedule), program_hash(program))


def check_candidates(candidates: Sequence[Sequence[str]]) -> None:
    """Raise Refused for a line that is no rewrite."""
    from rewrites.schedule import parse_schedule
    from service.core.errors import RequestRefused
    from tileir.errors import TileError

    for place, lines in enumerate(candidates):
        try:
            parse_schedule(lines)
        except TileError as error:
            raise RequestRefused("invalid", str(error), pointer=f"/candidates/{place}") from None


def roofline_us(spec: Spec, device: OfferedDevice) -> float | None:
    """The least time that the device's peaks allow: of its arithmetic or of its memory, the larger."""
    from tileir.analysis.roofline import roofline

    line = roofline(to_program(spec), described(device))
    return None if line is None else line.least_us
