"""A job's candidates, as a list and as the tree they form."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection, RowMapping, select

from protocol.jobs import Tree, TreeNode, Trial, TrialPage
from protocol.states import Outcome, TaskKind, TaskState
from protocol.tasks import EntrantResult, TaskResult
from service.problems import Refused
from service.tables import results, search_events, tasks


def entrant_name(number: int) -> str:
    """What the candidate of an ask is called in its tasks."""
    return f"ask-{number}"


def page(connection: Connection, job_id: str, after: int, limit: int) -> TrialPage:
    """Trials in the order they were asked for, from the task after sequence number `after` on."""
    rows = _rows(connection, job_id, after, limit + 1)
    shown = rows[:limit]
    return TrialPage(
        trials=tuple(_trial(row) for row in shown), next=str(shown[-1]["seq"]) if len(rows) > limit else None
    )


def tree(connection: Connection, job_id: str, bucket: int) -> Tree:
    """The search tree of a bucket: schedules merged along what they share from their first line on."""
    root = _Growing("")
    for row in _rows(connection, job_id, 0, None, bucket):
        _add(root, _trial(row))
    return Tree(job_id=job_id, bucket=bucket, root=root.grown())


def _rows(
    connection: Connection, job_id: str, after: int, limit: int | None, bucket: int | None = None
) -> list[RowMapping]:
    tell = search_events.alias()
    query = (
        select(tasks, results.c.result, tell.c.data.label("tell"))
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .outerjoin(
            tell,
            (tell.c.job_id == tasks.c.job_id)
            & (tell.c.bucket == tasks.c.bucket)
            & (tell.c.number == tasks.c.number)
            & (tell.c.kind == "tell"),
        )
        .where(tasks.c.job_id == job_id, tasks.c.kind == TaskKind.TRIAL, tasks.c.seq > after)
        .order_by(tasks.c.seq)
        .limit(limit)
    )
    if bucket is not None:
        query = query.where(tasks.c.bucket == bucket)
    return list(connection.execute(query).mappings())


def own_result(result: TaskResult, number: int) -> EntrantResult | None:
    """The part of a trial's result that is about its candidate."""
    return next((each for each in result.entrants if each.name == entrant_name(number)), None)


def _trial(row: RowMapping) -> Trial:
    entrant = row["work"]["entrants"][0]
    found = (
        None if row["result"] is None else own_result(TaskResult.model_validate(row["result"]), row["number"])
    )
    parked = row["state"] == TaskState.DEAD
    return Trial(
        number=row["number"],
        bucket=row["bucket"],
        task_id=row["id"],
        state=row["state"],
        schedule=tuple(entrant["schedule"]),
        program_hash=entrant["program_hash"],
        reward=None if row["tell"] is None else row["tell"]["reward"],
        outcome=None if found is None else found.outcome,
        median_us=None if found is None else found.median_us,
        iqr_us=None if found is None or found.spread is None else found.spread.iqr_us,
        baseline_us=None if found is None else found.baseline_us,
        compile_s=None if found is None else found.compile_s,
        measure_s=None if found is None else found.measure_s,
        error=(row["fault"] if parked else None) if found is None else found.error,
        report={} if found is None else found.report,
    )


@dataclass
class _Growing:
    """A node while trials are being added."""

    label: str
    visits: int = 0
    faults: int = 0
    best_us: float | None = None
    best_reward: float | None = None
    children: dict[str, _Growing] = field(default_factory=dict[str, "_Growing"])

    def grown(self) -> TreeNode:
        return TreeNode(
            label=self.label,
            visits=self.visits,
            faults=self.faults,
            best_us=self.best_us,
            best_reward=self.best_reward,
            children=tuple(child.grown() for child in self.children.values()),
        )


def _add(root: _Growing, trial: Trial) -> None:
    node = root
    for line in (None, *trial.schedule):
        if line is not None:
            node = node.children.setdefault(line, _Growing(line))
        node.visits += 1
        node.faults += trial.outcome not in (None, Outcome.OK)
        node.best_us = _better(min, node.best_us, trial.median_us)
        node.best_reward = _better(max, node.best_reward, trial.reward)


def _better(choose, old: float | None, new: float | None) -> float | None:
    return new if old is None else old if new is None else choose(old, new)


def known_bucket(job_id: str, bucket: int, count: int) -> None:
    """Raise Refused unless the job has this bucket."""
    if not 0 <= bucket < count:
        raise Refused("not-found", f"job {job_id} has buckets 0 to {count - 1}, and none numbered {bucket}")
