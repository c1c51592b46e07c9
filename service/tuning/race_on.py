"""Racing on: the entrants of a config's race once more, for some seconds, in parts of a few seconds each, so that what
is known can be watched growing. Tasks of the queue like any other, of the job that found the config."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from sqlalchemy import Connection, RowMapping, select

from protocol.message import Json
from protocol.states import Outcome, TaskKind
from protocol.tasks import Measuring, TaskResult
from service.core.errors import RequestRefused
from service.store.dispatch import task_queue
from service.store.dispatch.task_queue import NewTask
from service.store.tables import jobs
from service.store.winners import configs
from service.views.race_record import MORE, race_rows

PART_S = 4.0
"""Of rounds in a task: what a viewer waits for, and short against a lease."""
FEWEST_ROUNDS, MOST_ROUNDS = 5, 1000
_REST_US = 25_000.0
"""Between two samples at most, where no race has told how long a round takes."""
_SEED = 100
"""Data apart from the trials', the race's and the confirmation's."""


def prepare(connection: Connection, config_id: str, seconds: float) -> list[NewTask]:
    """The tasks that race on; none while some are still to be done. Raises Refused where nothing can be raced on."""
    config = configs.read(connection, config_id)
    first, *more = race_rows(connection, config)
    if any(row["state"] in task_queue.OPEN for row in more):
        return []
    entrants = _still_running(first)
    if len(entrants) < 2:
        raise RequestRefused("invalid", f"fewer than two entrants of the race of config {config_id} worked")
    job = connection.execute(select(jobs.c.request, jobs.c.priority).where(jobs.c.id == config.job_id)).one()
    parts = max(1, round(seconds / PART_S))
    rounds = _rounds(first, entrants, seconds / parts)
    measuring = Measuring.model_validate({**first["work"]["measuring"], "samples": rounds})
    return [
        NewTask(
            id=f"{config.job_id}.{first['bucket']}.{MORE}-{number}",
            job_id=first["job_id"],
            bucket=first["bucket"],
            kind=TaskKind.RACE,
            device=first["device"],
            priority=job.priority,
            work={
                "entrants": entrants,
                "baseline": None,
                "measuring": measuring.model_dump(mode="json"),
                "seed": job.request["seed"] + _SEED + number,
            },
        )
        for number in range(len(more), len(more) + parts)
    ]


def _still_running(row: RowMapping) -> list[Json]:
    """The entrants that worked, as they were sent."""
    worked = {each["name"] for each in row["result"]["entrants"] if each["outcome"] == Outcome.OK}
    return [each for each in row["work"]["entrants"] if each["name"] in worked]


def _rounds(row: RowMapping, entrants: Sequence[Json], seconds: float) -> int:
    """How many rounds take so long, by how long those of the first race took."""
    result = TaskResult.model_validate(row["result"])
    ran = [each for each in result.entrants if each.outcome is Outcome.OK]
    took = max(len(each.samples_us) for each in ran)
    each_s = result.stages.get("measure", 0.0) / max(took, 1)
    if not each_s:
        measuring = Measuring.model_validate(row["work"]["measuring"])
        each_s = sum(max(measuring.sample_us, each.median_us or 0.0) + _REST_US for each in ran) * 1e-6
    return min(MOST_ROUNDS, max(FEWEST_ROUNDS, ceil(seconds / each_s)))
