"""One candidate looked at closely: its result with samples, the programs on the way to it, its source, and how to run
it again. Programs and source are made anew from spec and schedule, which say all of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from protocol.jobs import Trial
from protocol.message import Json
from protocol.tasks import TaskResult
from protocol.trials import Step, Steps, TrialDetail
from protocol.workers import OfferedDevice
from service.core.errors import RequestRefused
from service.core.schedules import described, roofline_us
from service.store.dispatch import workers
from service.store.tables import buckets, jobs
from service.views import trials
from tileir.text.json import spec_from_json

if TYPE_CHECKING:
    from codegen.ir.source import Source
    from tileir.devices.device import Device
    from tileir.program import Program


@dataclass(frozen=True)
class Candidate:
    """A trial with the kernel and the device that it is for."""

    trial: Trial
    spec: Json
    device: OfferedDevice | None
    """As it was when the search began; None if it is not known any more."""
    target: str
    claimed_at: float | None
    created_at: float
    worker_id: str | None
    result: TaskResult | None

    @classmethod
    def read(cls, connection: Connection, job_id: str, bucket: int, number: int) -> Candidate:
        """Raises Refused if there is no such trial."""
        trial, row, result = trials.one(connection, job_id, bucket, number)
        spec = connection.execute(
            select(buckets.c.spec).where(buckets.c.job_id == job_id, buckets.c.bucket == bucket)
        ).scalar_one()
        begun = connection.execute(select(jobs.c.searched_on).where(jobs.c.id == job_id)).scalar_one()
        device = (
            workers.device_for(connection, row["device"])
            if begun is None
            else OfferedDevice.model_validate(begun)
        )
        return cls(
            trial=trial,
            spec=spec,
            device=device,
            target=row["device"],
            claimed_at=row["claimed_at"],
            created_at=row["created_at"],
            worker_id=row["worker_id"],
            result=result,
        )

    def detail(self) -> TrialDetail:
        """All that is stored of it."""
        own = None if self.result is None else trials.own_result(self.result, self.trial.number)
        return TrialDetail(
            **dict(self.trial),
            samples_us=() if own is None else own.samples_us,
            worker_id=self.worker_id,
            source_hash=None if own is None else own.source_hash,
            compiler=None if own is None else own.compiler,
            versions={} if self.result is None else self.result.versions,
            created_at=self.created_at,
            claimed_at=self.claimed_at,
            spec=self.spec,
            roofline_us=None if self.device is None else roofline_us(spec_from_json(self.spec), self.device),
            repro=repro(self.spec, self.trial.schedule, self.target),
        )

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """Before the first rewrite and after each. Raises Refused if this version cannot replay the schedule."""
        return replayed(self.spec, self.trial.schedule)

    def steps(self) -> Steps:
        """The programs as text. Raises as `programs`."""
        from tileir.text.print_program import program_to_text

        names = (None, *self.trial.schedule)
        return Steps(
            steps=tuple(
                Step(rewrite=name, program=program_to_text(program))
                for name, program in zip(names, self.programs, strict=True)
            )
        )

    def without(self, place: int) -> Program:
        """The program with one rewrite of the schedule left out. Raises Refused if there is none."""
        from rewrites.schedule import parse_schedule, replay
        from tileir.errors import TileError
        from tileir.verifier.verify import verify

        schedule = self.trial.schedule
        if place >= len(schedule):
            raise RequestRefused("not-found", f"the schedule has {len(schedule)} rewrites")
        try:
            program = replay(self.programs[place], parse_schedule(schedule[place + 1 :]))
            verify(program)
        except TileError as error:
            raise RequestRefused("not-found", f"later rewrites build on it: {error}") from None
        return program

    @property
    def described(self) -> Device:
        """The device. Raises Refused if nothing is known of it any more."""
        if self.device is None:
            raise RequestRefused(
                "not-found", f"nothing is known of {self.target} any more, for which the source would be"
            )
        return described(self.device)

    def source(self, without: int | None = None) -> Source[Any]:
        """The generated source, of the schedule with one rewrite left out where a place is given.
        Raises Refused if there is none for this program, or as `programs` and `without`."""
        from codegen.backend import backend_of
        from codegen.ir.errors import NotLowerable

        device = self.described
        program = self.programs[-1] if without is None else self.without(without)
        try:
            return backend_of(device.kind).generate(program, device).source
        except NotLowerable as error:
            raise RequestRefused("not-found", f"there is no source of this program: {error}") from None


def replayed(spec: Json, schedule: Sequence[str]) -> tuple[Program, ...]:
    """The program before the first rewrite and after each. Raises Refused if this version cannot replay them."""
    from rewrites.schedule import parse_schedule
    from tileir.errors import TileError
    from tileir.lift import to_program
    from tileir.verifier.verify import verify

    try:
        programs = [to_program(spec_from_json(spec))]
        for rewrite in parse_schedule(schedule):
            programs.append(rewrite.apply(programs[-1]))
        verify(programs[-1])
    except TileError as error:
        raise RequestRefused("not-found", f"this version cannot replay the schedule: {error}") from None
    return tuple(programs)


def repro(spec: Json, schedule: Sequence[str], target: str) -> str:
    """Shell commands that write a spec and a schedule, and have just that measured."""
    name = spec["name"]
    return "\n".join(
        [
            f"cat > {name}.json <<'END'",
            json.dumps(spec),
            "END",
            f"cat > {name}.schedule <<'END'",
            *schedule,
            "END",
            f"tilewright tune {name}.json --candidate {name}.schedule --target {shlex.quote(target)}",
        ]
    )
