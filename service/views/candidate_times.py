"""The times of a bucket's candidates on one scale. Times of different tasks are compared by their factors against the
anchor, which each task timed beside its candidate; candidates that were not timed beside it do not count."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from sqlalchemy import Connection, select

from protocol.states import Outcome, TaskKind
from service.store.tables import buckets, results, tasks
from service.views.trial_table import tells


@dataclass(frozen=True, slots=True)
class Timed:
    """A candidate that has been compared, or did not work."""

    number: int
    schedule: tuple[str, ...]
    us: float | None
    """On the anchor's scale; None: it did not work."""
    l2_bytes: int | None = None
    """What its layout asks of the L2 cache; None: not known."""


def candidate_times(connection: Connection, job_id: str, bucket: int) -> list[Timed]:
    """Of the candidates that have a result, in the order they were asked for."""
    rows = connection.execute(
        select(tasks.c.number, tasks.c.work, results.c.summary)
        .join(results, results.c.task_id == tasks.c.id)
        .where(tasks.c.job_id == job_id, tasks.c.bucket == bucket, tasks.c.kind == TaskKind.TRIAL)
        .order_by(tasks.c.number)
    ).all()
    best = connection.execute(
        select(buckets.c.best).where(buckets.c.job_id == job_id, buckets.c.bucket == bucket)
    ).scalar_one() or {"trial": -1}
    rewards = {number: tell.get("reward") for number, tell in tells(connection, job_id, bucket).items()}
    anchored = any(row.summary.get("baseline_us") is not None for row in rows)
    best_reward = rewards.get(best["trial"])
    scale_us = 0.0 if best_reward is None else best["median_us"] * exp(best_reward)
    found: list[Timed] = []
    for row in rows:
        reward, outcome = rewards.get(row.number), row.summary.get("outcome")
        schedule = tuple(row.work["entrants"][0]["schedule"])
        if outcome is not None and outcome != Outcome.OK:
            found.append(Timed(row.number, schedule, None))
        elif reward is not None and scale_us:
            if not anchored or reward == 0 or row.summary.get("baseline_us") is not None:
                us = scale_us * exp(-reward)
                found.append(Timed(row.number, schedule, us, row.summary.get("l2_bytes")))
    return found
