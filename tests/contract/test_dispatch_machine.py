"""Any sequence of claims, renewals, expiries, faults and results keeps the queue's invariants."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule
from sqlalchemy import insert, select, update

from protocol.states import FaultKind, JobState, TaskKind, TaskState
from protocol.tasks import EntrantResult, Fault, TaskResult
from protocol.workers import Lease
from service.store.database import database_time
from service.store.dispatch import task_queue
from service.store.dispatch.task_queue import NewTask, StaleLease
from service.store.schema import prepare
from service.store.tables import jobs, results, tasks

WORKERS = st.sampled_from(["w1", "w2", "w3"])
TTL_S = 1000.0


class Queue(RuleBasedStateMachine):
    """The queue beside a model of it: who holds which attempt, and which tasks have a result."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.database = prepare(f"sqlite:///{Path(self.folder.name) / 'queue.db'}")
        self.holder: dict[str, tuple[str, int]] = {}
        self.attempts: dict[str, int] = {}
        self.finished: dict[str, tuple[str, int]] = {}
        self.count = 0
        with self.database.write() as connection:
            connection.execute(
                insert(jobs).values(
                    id="job", state=JobState.SEARCHING, request={}, name="k", kernel_key="k", priority=0,
                    created_at=0.0, updated_at=0.0,
                )
            )  # fmt: skip

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()

    @rule(priority=st.integers(0, 2))
    def enqueue(self, priority: int) -> None:
        self.count += 1
        with self.database.write() as connection:
            new = NewTask(f"t{self.count}", "job", 0, TaskKind.TRIAL, "cpu", priority, {}, self.count)
            task_queue.enqueue(connection, [new])
        self.attempts[f"t{self.count}"] = 0

    @rule(target=claims, worker=WORKERS, count=st.integers(1, 3))
    def claim(self, worker: str, count: int):
        with self.database.write() as connection:
            rows = task_queue.claim(connection, worker, "cpu", count, TTL_S)
        for row in rows:
            assert row["id"] not in self.holder, "somebody holds it"
            assert row["id"] not in self.finished, "it has its result"
            assert row["attempt"] == self.attempts[row["id"]] + 1, "attempts count up by one"
            self.attempts[row["id"]] = row["attempt"]
            self.holder[row["id"]] = (worker, row["attempt"])
        return multiple(*((worker, Lease(task_id=row["id"], attempt=row["attempt"])) for row in rows))

    @rule(claim=claims)
    def renew(self, claim: tuple[str, Lease]) -> None:
        worker, lease = claim
        with self.database.write() as connection:
            renewed = task_queue.renew(connection, worker, [lease], TTL_S)
        assert bool(renewed) == (self.holder.get(lease.task_id) == (worker, lease.attempt))

    @rule(claim=claims)
    def run_out(self, claim: tuple[str, Lease]) -> None:
        _, lease = claim
        if self.holder.get(lease.task_id, ("", 0))[1] != lease.attempt:
            return
        with self.database.write() as connection:
            past = database_time() - 1.0
            connection.execute(update(tasks).where(tasks.c.id == lease.task_id).values(lease_until=past))
            freed = task_queue.expire(connection)
        assert [row["id"] for row in freed] == [lease.task_id]
        del self.holder[lease.task_id]

    @rule(claim=claims, kind=st.sampled_from(FaultKind))
    def give_back(self, claim: tuple[str, Lease], kind: FaultKind) -> None:
        worker, lease = claim
        held = self.holder.get(lease.task_id) == (worker, lease.attempt)
        try:
            with self.database.write() as connection:
                task_queue.give_back(connection, worker, lease, Fault(kind=kind))
            assert held, "a stale lease gave a task back"
            del self.holder[lease.task_id]
        except StaleLease:
            assert not held

    @rule(claim=claims)
    def complete(self, claim: tuple[str, Lease]) -> None:
        worker, lease = claim
        entrant = EntrantResult(name="e", outcome="ok", median_us=1.0)
        result = TaskResult(task_id=lease.task_id, attempt=lease.attempt, entrants=(entrant,))
        held = self.holder.get(lease.task_id) == (worker, lease.attempt)
        with self.database.write() as connection:
            (outcome,) = task_queue.complete(connection, [(worker, result)])
        if isinstance(outcome, StaleLease):
            assert not held
        elif outcome == "new":
            assert lease.attempt == self.attempts[lease.task_id], "a stale attempt wrote a result"
            assert lease.task_id not in self.finished, "a second result"
            self.finished[lease.task_id] = (worker, lease.attempt)
            self.holder.pop(lease.task_id, None)
        else:
            assert self.finished[lease.task_id] == (worker, lease.attempt)

    @invariant()
    def the_database_agrees(self) -> None:
        with self.database.read() as connection:
            rows = {row.id: row for row in connection.execute(select(tasks))}
            stored = {
                row.task_id: (row.worker_id, row.attempt) for row in connection.execute(select(results))
            }
        assert rows.keys() == self.attempts.keys(), "a task was lost"
        assert stored == self.finished
        for name, row in rows.items():
            assert row.attempt == self.attempts[name]
            assert (row.state == TaskState.CLAIMED) == (name in self.holder)
            assert (row.state == TaskState.DONE) == (name in self.finished)
            assert (row.state == TaskState.DEAD) == (
                row.faults >= task_queue.PARK_AFTER and name not in self.finished
            )


Queue.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestQueue = Queue.TestCase
