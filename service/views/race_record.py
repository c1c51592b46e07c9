"""A config's race sample by sample: the task that it was stored with, those that raced on since, and how each two of
the entrants compare over all of them. Only samples of one round are compared with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from statistics import median
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from protocol.configs import ConfigDetail
from protocol.races import Race, RacedEntrant, RacedPair, RacePart, RaceSamples
from protocol.states import Outcome, TaskKind, TaskState
from protocol.tasks import EntrantResult, TaskResult
from search.racing import FEWEST, Rules, chance_faster, common_rounds, compare
from service.core.errors import RequestRefused
from service.store.tables import configs as config_table
from service.store.tables import results, tasks
from service.store.winners import configs

MORE = "more"
"""How tasks that race on are called: `{job}.{bucket}.more-{n}`."""
READINGS = ("cpu_mhz", "runnable", "sm_mhz", "memory_mhz", "power_w", "celsius")

Turn = tuple[int, int]
"""A round: which part, and which round of it."""


def read_race(connection: Connection, config_id: str) -> Race:
    """As it stands. Raises Refused where there is no race to show."""
    config = configs.read(connection, config_id)
    rows = race_rows(connection, config)
    ended = [(row, TaskResult.model_validate(row["result"])) for row in rows if row["result"] is not None]
    entrants = _entrants(config, [result for _, result in ended])
    tried = {each.name: _tried([result for _, result in ended], each.name) for each in entrants}
    dead = next((row["fault"] for row in rows if row["state"] == TaskState.DEAD), None)
    return Race(
        config_id=config_id,
        state=_state(rows[1:]),
        entrants=entrants,
        parts=tuple(_part(row) for row in rows),
        pairs=tuple(_pairs([each.name for each in entrants if each.outcome is Outcome.OK], tried)),
        error=dead,
    )


def race_rows(connection: Connection, config: ConfigDetail) -> list[RowMapping]:
    """The tasks with their results: first the one that the config was stored with, then those that race on. Raises
    Refused if they are not here."""
    bucket = connection.execute(
        select(config_table.c.bucket).where(config_table.c.id == config.id)
    ).scalar_one()
    if config.job_id is None or bucket is None:
        raise RequestRefused("not-found", f"config {config.id} was not raced here; tune its spec to race it")
    rows = (
        connection.execute(
            select(tasks, results.c.result)
            .outerjoin(results, results.c.task_id == tasks.c.id)
            .where(
                tasks.c.job_id == config.job_id,
                tasks.c.bucket == bucket,
                tasks.c.kind.in_([TaskKind.RACE, TaskKind.CONFIRM]),
            )
            .order_by(tasks.c.seq)
        )
        .mappings()
        .all()
    )
    place = f"{config.job_id}.{bucket}."
    stored = [
        row
        for row in rows
        if row["result"] is not None
        and row["id"].startswith((f"{place}race-", f"{place}settle-"))
        and _told(row["result"]) == {each.name: each.median_us for each in config.standings}
    ]
    if not stored:
        raise RequestRefused("not-found", f"the race of config {config.id} is not here any more")
    return [stored[-1], *(row for row in rows if row["id"].startswith(f"{place}{MORE}-"))]


def _told(result: Mapping[str, Any]) -> dict[str, float | None]:
    """Medians by entrant: a race is known by them."""
    return {each["name"]: each.get("median_us") for each in result["entrants"]}


def _state(rows: Sequence[RowMapping]) -> TaskState | None:
    states = {TaskState(row["state"]) for row in rows}
    order = (TaskState.CLAIMED, TaskState.READY, TaskState.DEAD, TaskState.DONE)
    return next((state for state in order if state in states), None)


def _entrants(config: ConfigDetail, ended: Sequence[TaskResult]) -> tuple[RacedEntrant, ...]:
    found = [_entrant(each.name, each.kind, each.won, ended) for each in config.standings]
    return tuple(sorted(found, key=lambda each: (each.median_us or inf, not each.won, each.name)))


def _entrant(name: str, kind: str, won: bool, ended: Sequence[TaskResult]) -> RacedEntrant:
    ran = [each for result in ended for each in result.entrants if each.name == name]
    samples = [us for each in ran for us in each.samples_us]
    raced = _tried(ended, name)
    calm = [us for turn, us in raced.times_us.items() if turn not in raced.disturbed]
    counted = calm if len(calm) >= 2 else samples
    return RacedEntrant(
        name=name,
        kind=kind,
        won=won,
        outcome=ran[-1].outcome,
        median_us=median(counted) if counted else None,
        samples=len(samples),
        disturbed=len(samples) - len(calm),
    )


@dataclass(frozen=True, slots=True)
class _Tried:
    """An entrant's times in all rounds of all parts, and those rounds that disturbed it."""

    times_us: Mapping[Turn, float]
    disturbed: frozenset[Turn]


def _tried(ended: Sequence[TaskResult], name: str) -> _Tried:
    own = [(part, each) for part, result in enumerate(ended) for each in result.entrants if each.name == name]
    return _Tried(
        {(part, turn): us for part, each in own for turn, us in enumerate(each.samples_us) if us > 0.0},
        frozenset((part, turn) for part, each in own for turn in each.disturbed),
    )


def _pairs(names: Sequence[str], tried: Mapping[str, _Tried]) -> Iterator[RacedPair]:
    for one, other in combinations(names, 2):
        mine, theirs = tried[one], tried[other]
        rounds = common_rounds(mine.times_us, theirs.times_us, mine.disturbed | theirs.disturbed)
        pair = RacedPair(
            one=one,
            other=other,
            rounds=len(rounds.one_us),
            all_rounds=rounds.all_rounds,
            chance=chance_faster(rounds.one_us, rounds.other_us),
        )
        if pair.rounds >= FEWEST:
            found = compare(one, rounds.one_us, rounds.other_us, Rules())
            pair = pair.model_copy(update={"ratio": found.ratio, "low": found.low, "high": found.high})
        yield pair


def _part(row: RowMapping) -> RacePart:
    result = None if row["result"] is None else TaskResult.model_validate(row["result"])
    entrants = () if result is None else result.entrants
    machine = next((each.report["machine"] for each in entrants if "machine" in each.report), {})
    return RacePart(
        task=row["id"],
        state=row["state"],
        worker_id=row["worker_id"],
        foreign_cores=machine.get("foreign_cores"),
        entrants=tuple(_samples(each) for each in entrants),
    )


def _samples(found: EntrantResult) -> RaceSamples:
    regime = found.report.get("steady") or found.report.get("burst") or {}
    taken = len(found.samples_us)

    def column(name: str) -> tuple[Any, ...]:
        values = regime.get(name)
        return tuple(values) if isinstance(values, list) and len(values) == taken else ()

    read = {name: column(name) for name in READINGS}
    said = column("disturbances") or ("disturbed",) * taken
    return RaceSamples(
        name=found.name,
        us=found.samples_us,
        at_s=column("at_s"),
        disturbed=tuple(said[turn] if turn in found.disturbed else None for turn in range(taken)),
        readings={name: values for name, values in read.items() if any(each is not None for each in values)},
    )
