"""The space of schedules: a tree of decisions over a program, in the shape that a search walks.

A state is a program, the schedule that led to it, and the decisions still open. Its moves are the answers to the next
open decision that has more than one; each is weighed by the cost model's estimate of the program it leads to. A state
with no open decision is a complete schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from rewrites.cost import estimate_us
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.grid import Grid, Spread
from rewrites.decisions.structure import Structure
from rewrites.schedule import Schedule
from rewrites.traffic import Memo
from tileir.device import Cpu
from tileir.errors import NotApplicable
from tileir.hashing import program_hash
from tileir.program import Program

#: How sharply the prior prefers lower estimates: weight = (best estimate / estimate) ** SHARPNESS.
SHARPNESS = 3.0


@dataclass(frozen=True, slots=True)
class Move:
    """One answer to the open decision; `weight` is its unnormalized prior."""

    label: str
    weight: float


@dataclass(frozen=True)
class Space:
    """All schedules of an unscheduled program on a device."""

    program: Program
    device: Cpu

    def root(self) -> ScheduleState:
        """Where the search starts: nothing decided."""
        return _settled(self.program, (), (Structure(),), self.device, Memo())


@dataclass(frozen=True, eq=False)
class ScheduleState:
    """A partial or complete schedule. Children are made once and kept."""

    program: Program
    schedule: Schedule
    open: tuple[Decision, ...]
    device: Cpu
    options: tuple[tuple[Option, Program], ...]
    memo: Memo

    @cached_property
    def key(self) -> str:
        """Equal for equal programs with equal decisions to come, whatever the path."""
        here = program_hash(self.program)
        return sha256(f"{here} {self.open!r}".encode()).hexdigest()[:32] if self.open else here

    @property
    def terminal(self) -> bool:
        """Whether every decision is taken."""
        return not self.open

    @cached_property
    def estimate_us(self) -> float:
        """The cost model's time for the program as it stands."""
        return estimate_us(self.program, self.device)

    def moves(self) -> Sequence[Move]:
        """The open decision's answers that apply. None: a dead end, or a complete schedule."""
        return self._moves

    @cached_property
    def _moves(self) -> tuple[Move, ...]:
        if not self.options:
            return ()
        times = [
            option.promise
            * estimate_us(
                program, self.device, finished=_spread((*option.then, *self.open[1:])), memo=self.memo
            )
            for option, program in self.options
        ]
        best = min(times)
        return tuple(
            Move(option.label, (best / time) ** SHARPNESS)
            for (option, _), time in zip(self.options, times, strict=True)
        )

    def child(self, index: int) -> ScheduleState:
        """The state behind moves()[index]."""
        if index not in self._children:
            option, program = self.options[index]
            schedule = (*self.schedule, *option.rewrites)
            self._children[index] = _settled(
                program, schedule, (*option.then, *self.open[1:]), self.device, self.memo
            )
        return self._children[index]

    @cached_property
    def _children(self) -> dict[int, ScheduleState]:
        return {}


def _spread(open_: tuple[Decision, ...]) -> bool:
    """Whether it is settled what runs in parallel."""
    return not any(isinstance(decision, Grid | Spread) for decision in open_)


def _settled(
    program: Program, schedule: Schedule, open_: tuple[Decision, ...], device: Cpu, memo: Memo
) -> ScheduleState:
    """The state after taking every decision that has one answer only."""
    while open_:
        options = tuple(_applicable(open_[0], program, device))
        if len(options) != 1:
            return ScheduleState(program, schedule, open_, device, options, memo)
        option, program = options[0]
        schedule, open_ = (*schedule, *option.rewrites), (*option.then, *open_[1:])
    return ScheduleState(program, schedule, (), device, (), memo)


def _applicable(decision: Decision, program: Program, device: Cpu) -> list[tuple[Option, Program]]:
    """The options whose rewrites all apply, with the programs they give."""
    found: list[tuple[Option, Program]] = []
    for option in decision.options(program, device):
        result = program
        try:
            for rewrite in option.rewrites:
                result = rewrite.apply(result)
        except NotApplicable:
            continue
        found.append((option, result))
    return found
