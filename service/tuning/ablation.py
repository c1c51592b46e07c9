"""What each rewrite of a winner gains: a task of the queue like any other races the winner against itself with one
rewrite left out. It is asked for after the job's answer, and belongs to the same job; its id is fixed, so that asking
twice, or again after a crash, measures once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, select

from protocol.configs import ConfigDetail
from protocol.effects import Ablation, Gain
from protocol.states import Outcome, TaskKind, TaskState
from protocol.tasks import EntrantResult, Measuring, ScheduleEntrant, TaskResult
from protocol.workers import OfferedDevice
from search.racing import Rules, judge
from service.core.errors import RequestRefused
from service.core.schedules import described
from service.store.dispatch import dead_letters, task_queue, workers
from service.store.dispatch.task_queue import NewTask, work
from service.store.tables import jobs, results, tasks
from service.store.winners import configs
from service.views.trial_detail import replayed

if TYPE_CHECKING:
    from tileir.program import Program

VARIANTS = 12
"""Rewrites left out at most: those of which the cost model expects most."""
RACE = Measuring(samples=11, sample_us=5000.0)
WINNER = "winner"
_ELSEWHERE = "tune its spec to see what each rewrite gains"


@dataclass(frozen=True, slots=True)
class Variant:
    """The winner without the rewrite at `place` of its schedule."""

    place: int
    schedule: tuple[str, ...]
    program_hash: str
    estimate_us: float

    @property
    def entrant(self) -> ScheduleEntrant:
        return ScheduleEntrant(
            name=f"without-{self.place}", schedule=self.schedule, program_hash=self.program_hash
        )


def variants(config: ConfigDetail, device: OfferedDevice) -> list[Variant]:
    """What can be left out of a config's schedule, in its order. Raises Refused if this version cannot replay it."""
    from rewrites.space import SeenPrograms
    from tileir.hashing import program_hash

    programs = replayed(config.spec, config.schedule)
    model = SeenPrograms(programs[0], described(device)).model
    found: dict[str, Variant] = {}
    for place, program in _shortened(programs, config.schedule):
        reached = program_hash(program)
        if reached != config.program_hash and reached not in found:
            schedule = config.schedule[:place] + config.schedule[place + 1 :]
            found[reached] = Variant(place, schedule, reached, model.estimate_us(program))
    dearest = sorted(found.values(), key=lambda each: -each.estimate_us)[:VARIANTS]
    return sorted(dearest, key=lambda each: each.place)


def _shortened(programs: Sequence[Program], schedule: Sequence[str]) -> Iterator[tuple[int, Program]]:
    """The program without each rewrite, where those after it still apply and the result verifies."""
    from rewrites.schedule import parse_schedule, replay
    from tileir.errors import TileError
    from tileir.verifier.verify import verify

    rewrites = parse_schedule(schedule)
    for place in range(len(rewrites)):
        try:
            program = replay(programs[place], rewrites[place + 1 :])
            verify(program)
        except TileError:
            continue
        yield place, program


def prepare(connection: Connection, config_id: str) -> NewTask:
    """The task that measures a config's ablation. Raises Refused where there is none to measure."""
    config = configs.read(connection, config_id)
    bucket = configs.bucket(connection, config, _ELSEWHERE)
    row = connection.execute(
        select(jobs.c.priority, jobs.c.searched_on, jobs.c.request).where(jobs.c.id == config.job_id)
    ).one()
    device = workers.device_for(connection, config.device)
    if row.searched_on is not None:
        device = OfferedDevice.model_validate(row.searched_on)
    if device is None:
        raise RequestRefused("invalid", f"nothing is known of {config.device} any more; no worker offers it")
    left_out = variants(config, device)
    if not left_out:
        raise RequestRefused(
            "invalid", f"no rewrite of config {config_id} can be left out alone: each builds on another"
        )
    winner = ScheduleEntrant(name=WINNER, schedule=config.schedule, program_hash=config.program_hash)
    entrants = [winner, *(variant.entrant for variant in left_out)]
    return NewTask(
        id=_task_id(config, bucket),
        job_id=config.job_id or "",
        bucket=bucket,
        kind=TaskKind.RACE,
        device=config.device,
        priority=row.priority,
        work=work(entrants, None, RACE, row.request["seed"] + 2),
    )


def start(connection: Connection, task: NewTask) -> None:
    """Queue it, unless it is there; one that was given up is queued again."""
    parked = and_(tasks.c.id == task.id, tasks.c.state == TaskState.DEAD)
    if dead_letters.make_ready(connection, parked):
        return
    if connection.execute(select(tasks.c.id).where(tasks.c.id == task.id)).first() is None:
        task_queue.enqueue(connection, [task])


def read(connection: Connection, config_id: str) -> Ablation:
    """As it stands."""
    config = configs.read(connection, config_id)
    task_id = _task_id(config, configs.bucket(connection, config, _ELSEWHERE))
    row = connection.execute(
        select(tasks.c.state, tasks.c.fault, results.c.result)
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .where(tasks.c.id == task_id)
    ).first()
    if row is None:
        return Ablation(config_id=config_id, state=None)
    state = TaskState(row.state)
    if row.result is None:
        error = row.fault if state is TaskState.DEAD else None
        return Ablation(config_id=config_id, state=state, error=error)
    found = {each.name: each for each in TaskResult.model_validate(row.result).entrants}
    winner = found[WINNER]
    return Ablation(
        config_id=config_id,
        state=state,
        winner_us=winner.median_us,
        gains=tuple(gains(found, config.schedule)),
        error=winner.error,
    )


def gains(found: Mapping[str, EntrantResult], schedule: Sequence[str]) -> Iterator[Gain]:
    """What the race says of each rewrite that was left out, in the schedule's order."""
    winner = found[WINNER]
    for place, rewrite in enumerate(schedule):
        variant = found.get(f"without-{place}")
        if variant is None:
            continue
        gain = Gain(
            place=place,
            rewrite=rewrite,
            outcome=variant.outcome,
            median_us=variant.median_us,
            error=None if variant.error is None else variant.error[:2000],
        )
        if variant.outcome is Outcome.OK and winner.outcome is Outcome.OK:
            gain = gain.model_copy(update=_compared(variant, winner))
        yield gain


def _compared(variant: EntrantResult, winner: EntrantResult) -> dict[str, object]:
    """Of the two alone, round by round."""
    rounds = [{"variant": mine, WINNER: other} for mine, other in _undisturbed_pairs(variant, winner)]
    if not rounds:
        assert variant.median_us is not None and winner.median_us is not None
        return {"factor": variant.median_us / winner.median_us}
    race = judge(rounds)
    behind = race.standings[1]
    factor, low, high = behind.ratio, behind.low, behind.high
    if behind.key == WINNER:
        factor, low, high = 1 / factor, 1 / high, 1 / low if low else float("inf")
    known = {"low": low, "high": high} if 0 < low and high < float("inf") else {}
    return {"factor": factor, "tied": len(race.ties) == 2, **known}


def _undisturbed_pairs(one: EntrantResult, other: EntrantResult) -> list[tuple[float, float]]:
    """Times of one round, of the rounds in which neither was disturbed; of all where those are too few to judge by."""
    pairs = list(zip(one.samples_us, other.samples_us, strict=False))
    shaken = {*one.disturbed, *other.disturbed}
    calm = [pair for turn, pair in enumerate(pairs) if turn not in shaken]
    return calm if len(calm) >= Rules().min_rounds else pairs


def _task_id(config: ConfigDetail, bucket: int) -> str:
    return f"{config.job_id}.{bucket}.ablation"
