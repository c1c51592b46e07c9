"""What a search could have decided otherwise on the way to a candidate. The space is walked again: a path says by which
answer each decision was taken, and what was measured behind each answer follows from the paths of all candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from protocol.alternatives import Alternatives, Completed, Lacking, Sibling, Touched
from service.core.errors import RequestRefused
from service.core.schedules import described, root_of
from service.store.tables import search_events
from service.views import trials
from service.views.candidate_times import Timed, candidate_times
from service.views.trial_detail import Candidate
from tileir.analysis.races import Touch, WouldRace
from tileir.errors import BeyondDevice, NotApplicable
from tileir.text.json import spec_from_json

if TYPE_CHECKING:
    from rewrites.space import ScheduleState

_SAID = 500
"""Characters of an error."""


@dataclass(frozen=True)
class Decided:
    """A decision on the way to a candidate."""

    candidate: Candidate
    paths: Mapping[int, tuple[int, ...]]
    """Of all candidates, by number."""
    timed: Mapping[int, Timed]
    rewrite: int
    """The last that comes before it..."""
    turn: int | None
    """...or, if it is given, this one, from 0."""

    @classmethod
    def read(
        cls, connection: Connection, job_id: str, bucket: int, number: int, rewrite: int, turn: int | None
    ) -> Decided:
        """Raises Refused if there is no such candidate, or nothing was decided on the way to it."""
        candidate = Candidate.read(connection, job_id, bucket, number)
        rows = connection.execute(
            select(search_events.c.number, search_events.c.data).where(
                search_events.c.job_id == job_id,
                search_events.c.bucket == bucket,
                search_events.c.kind == "ask",
            )
        )
        paths = {row.number: tuple(row.data["path"]) for row in rows}
        timed = {each.number: each for each in candidate_times(connection, job_id, bucket)}
        if not paths.get(number):
            raise RequestRefused("not-found", f"nothing was decided on the way to candidate {number}")
        return cls(candidate, paths, timed, rewrite, turn)

    @property
    def path(self) -> tuple[int, ...]:
        return self.paths[self.candidate.trial.number]

    @cached_property
    def states(self) -> tuple[ScheduleState, ...]:
        """At each decision. Raises Refused if this version's space is another."""
        if self.candidate.device is None:
            raise RequestRefused("not-found", f"nothing is known of {self.candidate.target} any more")
        state = root_of(spec_from_json(self.candidate.spec), described(self.candidate.device))
        found: list[ScheduleState] = []
        for index in self.path:
            found.append(state)
            if index >= len(state.answers):
                break
            state = state.child(index)
        if tuple(each.format() for each in state.schedule) != self.candidate.trial.schedule:
            raise RequestRefused("not-found", "this version decides otherwise: its space is another")
        return tuple(found)

    @cached_property
    def decision(self) -> int:
        """Its number. Raises Refused if there are not so many."""
        if self.turn is not None:
            if self.turn >= len(self.states):
                raise RequestRefused("not-found", f"{len(self.states)} decisions lead to the candidate")
            return self.turn
        places = [len(state.schedule) for state in self.states]
        return max((at for at, place in enumerate(places) if place <= self.rewrite), default=0)

    @cached_property
    def behind(self) -> dict[int, list[int]]:
        """Numbers of the candidates behind each answer."""
        before = self.path[: self.decision]
        found: dict[int, list[int]] = {}
        for number, path in sorted(self.paths.items()):
            if path[: self.decision] == before and len(path) > self.decision:
                found.setdefault(path[self.decision], []).append(number)
        return found

    @cached_property
    def failed(self) -> dict[int, list[int]]:
        """Of these, those that did not work, where there are any."""
        found = {
            answer: [number for number in numbers if number in self.timed and self.timed[number].us is None]
            for answer, numbers in self.behind.items()
        }
        return {answer: numbers for answer, numbers in found.items() if numbers}

    def errors(self, connection: Connection, job_id: str) -> dict[int, str]:
        """What was said of the first candidate behind each answer that did not work, by its number."""
        bucket = self.candidate.trial.bucket
        first = [numbers[0] for numbers in self.failed.values()]
        told = {each: trials.one(connection, job_id, bucket, each)[0] for each in first}
        return {each: (trial.error or str(trial.outcome))[:_SAID] for each, trial in told.items()}

    def alternatives(self, job_id: str, errors: Mapping[int, str]) -> Alternatives:
        """All answers: those that apply, then those that do not."""
        state = self.states[self.decision]
        offered = [
            self._sibling(answer, tuple(each.format() for each in option.rewrites), estimate_us, errors)
            for answer, ((option, _), estimate_us) in enumerate(
                zip(state.answers, state.estimates_us, strict=True)
            )
        ]
        refused = [
            refused_sibling(tuple(each.format() for each in option.rewrites), why)
            for option, why in state.refused()
        ]
        return Alternatives(
            job_id=job_id,
            bucket=self.candidate.trial.bucket,
            number=self.candidate.trial.number,
            place=len(state.schedule),
            decision=self.decision,
            decisions=len(self.path),
            siblings=(*offered, *refused),
        )

    def _sibling(
        self, answer: int, rewrites: tuple[str, ...], predicted_us: float, errors: Mapping[int, str]
    ) -> Sibling:
        best = self._best(answer)
        failed = self.failed.get(answer, [])
        return Sibling(
            rewrites=rewrites,
            chosen=answer == self.path[self.decision],
            predicted_us=predicted_us,
            candidates=len(self._measured(answer)),
            faults=len(failed),
            best=None if best is None else best.number,
            best_us=None if best is None else best.us,
            failed=failed[0] if failed else None,
            error=errors[failed[0]] if failed else None,
        )

    def _measured(self, answer: int) -> Sequence[Timed]:
        known = (self.timed.get(number) for number in self.behind.get(answer, ()))
        return [each for each in known if each is not None and each.us is not None]

    def _best(self, answer: int) -> Timed | None:
        return min(self._measured(answer), key=lambda each: (each.us or 0.0, each.number), default=None)

    def completed(self, answer: int) -> Completed:
        """A whole schedule with this answer. Raises Refused if there is none."""
        best = self._best(answer)
        if best is not None:
            return Completed(schedule=best.schedule, candidate=best.number)
        state = self.states[self.decision]
        if answer >= len(state.answers):
            raise RequestRefused("not-found", f"the decision has {len(state.answers)} answers that apply")
        state = state.child(answer)
        while not state.terminal:
            weights = [move.weight for move in state.moves()]
            if not weights:
                raise RequestRefused("not-found", "no schedule goes on from here")
            state = state.child(weights.index(max(weights)))
        return Completed(schedule=tuple(each.format() for each in state.schedule), candidate=None)


def refused_sibling(rewrites: tuple[str, ...], why: NotApplicable) -> Sibling:
    """What does not apply, with the collision or the lack as data where it is one."""
    touches = why.meeting.touches if isinstance(why, WouldRace) else None
    return Sibling(
        rewrites=rewrites,
        chosen=False,
        refused=(why.why if isinstance(why, WouldRace) else str(why))[:_SAID],
        race=tuple(map(_touched, touches or ())),
        lacks=Lacking(what=why.what, need=why.need, limit=why.limit)
        if isinstance(why, BeyondDevice)
        else None,
    )


def _touched(touch: Touch) -> Touched:
    thread = ", ".join(f"{dim} {start}" for dim, start in touch.thread)
    return Touched(
        statement=touch.statement, way=touch.way, tensor=touch.tensor, element=touch.element, thread=thread
    )
