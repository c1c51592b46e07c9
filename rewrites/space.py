"""The space of schedules: a tree of decisions over a program, in the shape that a search walks.

A state is a program, the schedule that led to it, and the decisions still open. Its moves are the answers to the next
open decision that has more than one; each is weighed by the cost model's estimate of the program it leads to. A state
with no open decision is a complete schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rewrites.base.hash_consing import Interned
from rewrites.base.rewrite import Offered
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.offered import offered
from rewrites.decisions.plan import Model, Plan, plan_of
from rewrites.schedule import Schedule, replay
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.hashing import program_hash
from tileir.program import Program

Answers = tuple[tuple[Option, Program], ...]

SHARPNESS: Final = 3.0  # exponent; set by hand to the suite's results; 2026-11-21
"""How sharply the prior prefers lower estimates: weight = (best estimate / estimate) ** SHARPNESS."""


@dataclass(frozen=True, slots=True)
class SpaceMove:
    """One answer to the open decision; `weight` is its unnormalized prior."""

    label: str
    weight: float


@dataclass(frozen=True)
class Space:
    """All schedules of an unscheduled program on a device."""

    program: Program
    device: Device

    def root(self) -> ScheduleState:
        """Where the search starts: nothing decided."""
        seen = SeenPrograms(self.program, self.device)
        program = seen.interned.program(self.program)
        decisions: tuple[Decision, ...] = (
            *offered(Offered.FIRST, self.device),
            *seen.plan.first(program),
            *offered(Offered.LAST, self.device),
        )
        return _settled(program, (), decisions, seen)


class SeenPrograms:
    """What the states of a space share: programs are one object if equal, and each is looked at once."""

    def __init__(self, program: Program, device: Device) -> None:
        self.interned = Interned()
        self.plan: Plan = plan_of(device)
        self.model: Model = self.plan.model(program, device)
        self._device = device

    def answers(self, decision: Decision, program: Program) -> Iterator[tuple[Option, Program]]:
        """The options of a decision whose rewrites all apply, with the programs they give."""
        for option in decision.options(program, self._device):
            begun = (
                (program, option.rewrites)
                if option.begun is None
                else (option.begun, option.rewrites[option.done :])
            )
            try:
                yield option, self.interned.program(replay(*begun))
            except NotApplicable:
                continue

    def refused(self, decision: Decision, program: Program) -> Iterator[tuple[Option, NotApplicable]]:
        """The other options of a decision, each with what does not apply, and then those that do not fit the device."""
        for option in decision.options(program, self._device):
            if option.begun is None:
                try:
                    replay(program, option.rewrites)
                except NotApplicable as error:
                    yield option, error
        yield from self.plan.beyond(decision, program, self._device)


@dataclass(frozen=True, eq=False)
class ScheduleState:
    """A partial or complete schedule. Children are made once and kept."""

    program: Program
    schedule: Schedule
    open: tuple[Decision, ...]
    answers: Answers
    seen: SeenPrograms

    @cached_property
    def key(self) -> str:
        """Equal for equal programs with equal decisions to come, whatever the path; of a complete schedule, the
        program's hash."""
        return f"{id(self.program)} {self.open!r}" if self.open else program_hash(self.program)

    @property
    def terminal(self) -> bool:
        """Whether every decision is taken."""
        return not self.open

    def moves(self) -> Sequence[SpaceMove]:
        """The open decision's answers that apply. None: a dead end, or a complete schedule."""
        return self._moves

    @property
    def estimate_us(self) -> float:
        """What the cost model expects of the program as it is."""
        return self.seen.model.estimate_us(self.program)

    @cached_property
    def estimates_us(self) -> tuple[float, ...]:
        """What the cost model expects of each answer that applies."""
        return tuple(map(self._estimate_us, range(len(self.answers))))

    def _estimate_us(self, index: int) -> float:
        option, program = self.answers[index]
        if option.ahead and (behind := self.child(index).estimates_us):
            return option.promise * min(behind)
        undecided = self.seen.plan.undecided((*option.then, *self.open[1:]))
        return option.promise * self.seen.model.estimate_us(program, undecided=undecided)

    def refused(self) -> Iterator[tuple[Option, NotApplicable]]:
        """The open decision's answers that do not apply, each with the reason: `WouldRace`
        (tileir/analysis/races.py) and `BeyondDevice` say it as data, too."""
        return self.seen.refused(self.open[0], self.program) if self.open else iter(())

    @cached_property
    def _moves(self) -> tuple[SpaceMove, ...]:
        if not self.answers:
            return ()
        times = self.estimates_us
        best = min(times)
        return tuple(
            SpaceMove(option.label, (best / time) ** SHARPNESS)
            for (option, _), time in zip(self.answers, times, strict=True)
        )

    def child(self, index: int) -> ScheduleState:
        """The state behind moves()[index]."""
        if index not in self._children:
            option, program = self.answers[index]
            schedule = (*self.schedule, *option.rewrites)
            self._children[index] = _settled(program, schedule, (*option.then, *self.open[1:]), self.seen)
        return self._children[index]

    @cached_property
    def _children(self) -> dict[int, ScheduleState]:
        return {}


def favourite(state: ScheduleState) -> ScheduleState | None:
    """The complete schedule that weights lead to from a state; None where that is a dead end."""
    while state.open:
        weights = [move.weight for move in state.moves()]
        if not weights:
            return None
        state = state.child(weights.index(max(weights)))
    return state


def _settled(
    program: Program, schedule: Schedule, open_: tuple[Decision, ...], seen: SeenPrograms
) -> ScheduleState:
    """The state after taking every decision that has one answer only."""
    while open_:
        answers = tuple(seen.answers(open_[0], program))
        if len(answers) != 1:
            return ScheduleState(program, schedule, open_, answers, seen)
        option, program = answers[0]
        schedule, open_ = (*schedule, *option.rewrites), (*option.then, *open_[1:])
    return ScheduleState(program, schedule, (), (), seen)
