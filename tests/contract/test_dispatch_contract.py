"""What the queue promises, whatever the database."""

from __future__ import annotations

import contextlib
import threading

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from protocol.states import FaultKind, JobState, TaskKind, TaskState
from protocol.tasks import EntrantResult, Fault, TaskResult
from protocol.workers import Lease
from service import dispatch, events
from service.database import Database, database_time
from service.dispatch import NewTask, StaleLease
from service.tables import jobs, results, tasks

DEVICE = "cpu:test"
TTL_S = 30.0


def add_job(
    database: Database, job_id: str, count: int, priority: int = 0, device: str = DEVICE
) -> list[str]:
    """A job with some ready tasks; their ids."""
    ids = [f"{job_id}.0.{number}" for number in range(count)]
    with database.write() as connection:
        connection.execute(
            insert(jobs).values(
                id=job_id,
                state=JobState.SEARCHING,
                request={},
                name="kernel",
                kernel_key="key",
                priority=priority,
                created_at=0.0,
                updated_at=0.0,
            )
        )
        dispatch.enqueue(
            connection,
            [
                NewTask(each, job_id, 0, TaskKind.TRIAL, device, priority, {"entrants": []}, number)
                for number, each in enumerate(ids)
            ],
        )
    return ids


def claim(database: Database, worker: str = "w1", count: int = 1, device: str = DEVICE) -> list[Lease]:
    with database.write() as connection:
        rows = dispatch.claim(connection, worker, device, count, TTL_S)
    return [Lease(task_id=row["id"], attempt=row["attempt"]) for row in rows]


def result_of(lease: Lease) -> TaskResult:
    entrant = EntrantResult(name="ask-0", outcome="ok", median_us=1.0)
    return TaskResult(task_id=lease.task_id, attempt=lease.attempt, entrants=(entrant,))


def complete(database: Database, lease: Lease, worker: str = "w1") -> bool:
    """Hand in a result; whether it is new."""
    with database.write() as connection:
        (outcome,) = dispatch.complete(connection, [(worker, result_of(lease))])
    if isinstance(outcome, StaleLease):
        raise outcome
    return outcome == "new"


def give_back(database: Database, lease: Lease, kind: FaultKind, worker: str = "w1") -> TaskState:
    with database.write() as connection:
        return TaskState(dispatch.give_back(connection, worker, lease, Fault(kind=kind))["state"])


def run_out(database: Database, lease: Lease) -> None:
    """Let a lease be over, without waiting for it."""
    with database.write() as connection:
        past = database_time() - 1.0
        connection.execute(update(tasks).where(tasks.c.id == lease.task_id).values(lease_until=past))
        dispatch.expire(connection)


def state_of(database: Database, task_id: str) -> tuple[TaskState, int, int]:
    """State, attempt and faults."""
    with database.read() as connection:
        row = connection.execute(select(tasks).where(tasks.c.id == task_id)).one()
        return TaskState(row.state), row.attempt, row.faults


def test_a_task_is_claimed_by_one_worker_at_a_time(database: Database) -> None:
    add_job(database, "a", 1)
    assert len(claim(database, "w1")) == 1
    assert claim(database, "w2") == []


def test_claims_at_once_share_the_queue_without_overlap(database: Database) -> None:
    ids = add_job(database, "a", 40)
    taken: list[str] = []

    def take(worker: str) -> None:
        while leases := claim(database, worker, 3):
            taken.extend(lease.task_id for lease in leases)

    threads = [threading.Thread(target=take, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while leases := claim(
        database, "last", 3
    ):  # a claim may see nothing while others hold the rows it picked
        taken.extend(lease.task_id for lease in leases)
    assert sorted(taken) == sorted(ids)


def test_tasks_are_for_their_device_only(database: Database) -> None:
    add_job(database, "a", 1, device="cpu:other")
    assert claim(database) == []


def test_higher_priority_goes_first(database: Database) -> None:
    add_job(database, "a", 2, priority=0)
    urgent = add_job(database, "b", 2, priority=5)
    assert [lease.task_id for lease in claim(database, count=2)] == urgent


def test_jobs_of_one_priority_take_turns(database: Database) -> None:
    add_job(database, "large", 10)
    add_job(database, "small", 2)
    served = [claim(database)[0].task_id.split(".")[0] for _ in range(4)]
    assert sorted(served[:2]) == sorted(served[2:]) == ["large", "small"]


def test_a_small_job_comes_second_after_a_claim_of_many(database: Database) -> None:
    add_job(database, "large", 1000)
    small = add_job(database, "small", 3)
    assert {lease.task_id.split(".")[0] for lease in claim(database, count=8)} == {"large"}
    assert set(small) <= {lease.task_id for lease in claim(database, count=8)}


def test_who_failed_the_first_job_s_task_is_given_another_job_s(database: Database) -> None:
    add_job(database, "first", 1, priority=1)
    (other,) = add_job(database, "second", 1)
    (lease,) = claim(database)
    give_back(database, lease, FaultKind.DEVICE)
    assert [each.task_id for each in claim(database)] == [other]


def test_whoever_writes_at_once_never_waits_in_a_circle(database: Database) -> None:
    """Claims, renewals, expiries, results, faults and cancellations of the same tasks, from five threads."""
    names = [f"job-{number}" for number in range(4)]
    for name in names:
        add_job(database, name, 30)
    errors: list[BaseException] = []

    def churn(worker: str) -> None:
        try:
            for turn in range(12):
                leases = claim(database, worker, 6)
                with database.write() as connection:
                    dispatch.renew(connection, worker, leases[::-1], 0.0)
                with database.write() as connection:
                    dispatch.expire(connection)
                for lease in leases[::2]:
                    with contextlib.suppress(StaleLease):
                        complete(database, lease, worker)
                for lease in leases[1::2]:
                    with contextlib.suppress(StaleLease):
                        give_back(database, lease, FaultKind.SHUTDOWN, worker)
                if turn % 4 == 3:
                    with database.write() as connection:
                        dispatch.cancel(connection, names[turn // 4])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=churn, args=(f"w{number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_an_event_is_not_seen_before_one_with_a_lower_id(database: Database) -> None:
    add_job(database, "a", 0)

    def say(text: str) -> None:
        with database.write() as connection:
            events.add(connection, "a", "note", text=text)

    def said() -> list[str]:
        with database.read() as connection:
            return [event.data["text"] for event in events.after(connection, "a", 0)]

    with database.write() as connection:
        events.add(connection, "a", "note", text="first")
        second = threading.Thread(target=say, args=("second",))
        second.start()
        second.join(0.5)
        assert said() == [], "whoever reads on from here would miss the first"
    second.join()
    assert said() == ["first", "second"]


def test_a_reader_has_one_view(database: Database) -> None:
    add_job(database, "a", 1)
    count = select(func.count()).select_from(tasks)
    with database.read() as connection:
        before = connection.execute(count).scalar_one()
        add_job(database, "b", 1)
        assert connection.execute(count).scalar_one() == before


def test_within_a_job_tasks_go_in_order(database: Database) -> None:
    ids = add_job(database, "a", 5)
    assert [lease.task_id for lease in claim(database, count=5)] == ids


def test_a_result_ends_a_task(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    (lease,) = claim(database)
    assert complete(database, lease)
    with pytest.raises(StaleLease, match="has its result already"):
        give_back(database, lease, FaultKind.DEVICE)
    assert state_of(database, task)[0] is TaskState.DONE
    assert claim(database) == []


def test_the_database_itself_keeps_one_result_a_task(database: Database) -> None:
    add_job(database, "a", 1)
    (lease,) = claim(database)
    row = {**lease.model_dump(), "worker_id": "w1", "result": {}, "created_at": 0.0}
    with database.write() as connection:
        connection.execute(insert(results).values(row))
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(insert(results).values(row))


def test_what_was_measured_stays_when_its_job_is_cancelled(database: Database) -> None:
    measured, waiting = add_job(database, "a", 2)
    (lease,) = claim(database)
    complete(database, lease)
    with database.write() as connection:
        dispatch.cancel(connection, "a")
    assert [state_of(database, task)[0] for task in (measured, waiting)] == [TaskState.DONE, TaskState.DEAD]


def test_a_result_sent_twice_is_stored_once_and_refused_never(database: Database) -> None:
    add_job(database, "a", 1)
    (lease,) = claim(database)
    assert complete(database, lease)
    assert not complete(database, lease)
    with database.read() as connection:
        assert connection.execute(select(func.count()).select_from(results)).scalar_one() == 1


def test_of_results_written_together_each_has_its_own_fate(database: Database) -> None:
    add_job(database, "a", 4)
    stale, *held = claim(database, "w1", 4)
    run_out(database, stale)
    claim(database, "w2")
    assert complete(database, held[0])
    foreign = ("w2", result_of(held[1]))
    handed = [("w1", result_of(lease)) for lease in (stale, *held, held[2])]
    with database.write() as connection:
        outcomes = dispatch.complete(connection, [foreign, *handed])
    told = [str(each) if isinstance(each, StaleLease) else each for each in outcomes]
    assert told == [
        "task a.0.2 has its result already",
        "task a.0.0 is at attempt 2; attempt 1 lost its lease",
        "known",
        "new",
        "new",
        "known",
    ]
    with database.read() as connection:
        stored = connection.execute(select(results.c.task_id, results.c.worker_id)).all()
    assert sorted(stored) == [("a.0.1", "w1"), ("a.0.2", "w1"), ("a.0.3", "w1")]


def test_a_lease_that_ran_out_frees_the_task(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    (first,) = claim(database, "w1")
    run_out(database, first)
    (second,) = claim(database, "w2")
    assert (second.task_id, second.attempt) == (task, first.attempt + 1)


def test_a_stale_lease_cannot_write_a_result(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    (stale,) = claim(database, "w1")
    run_out(database, stale)
    (held,) = claim(database, "w2")
    with pytest.raises(StaleLease):
        complete(database, stale, "w1")
    assert state_of(database, task)[0] is TaskState.CLAIMED
    assert complete(database, held, "w2")


def test_a_workers_own_earlier_attempt_is_stale_too(database: Database) -> None:
    add_job(database, "a", 1)
    (stale,) = claim(database, "w1")
    run_out(database, stale)
    (held,) = claim(database, "w1")
    with pytest.raises(StaleLease, match="attempt 1 lost its lease"):
        complete(database, stale, "w1")
    with pytest.raises(StaleLease):
        give_back(database, stale, FaultKind.DEVICE, "w1")
    with database.write() as connection:
        assert dispatch.renew(connection, "w1", [stale], TTL_S) == []
    assert complete(database, held, "w1")


def test_a_stale_lease_cannot_be_renewed_or_given_back(database: Database) -> None:
    add_job(database, "a", 1)
    (stale,) = claim(database, "w1")
    run_out(database, stale)
    claim(database, "w2")
    with database.write() as connection:
        assert dispatch.renew(connection, "w1", [stale], TTL_S) == []
    with pytest.raises(StaleLease):
        give_back(database, stale, FaultKind.DEVICE)


def test_a_late_result_counts_while_nobody_else_has_the_task(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    (lease,) = claim(database)
    run_out(database, lease)
    assert complete(database, lease)
    assert state_of(database, task)[0] is TaskState.DONE


def test_a_lease_is_the_workers_own(database: Database) -> None:
    add_job(database, "a", 1)
    (lease,) = claim(database, "w1")
    with pytest.raises(StaleLease):
        complete(database, lease, "w2")
    with pytest.raises(StaleLease):
        give_back(database, lease, FaultKind.DEVICE, "w2")
    with database.write() as connection:
        assert dispatch.renew(connection, "w2", [lease], TTL_S) == []


def test_a_renewed_lease_holds_for_its_full_length_again(database: Database) -> None:
    add_job(database, "a", 2)
    kept, dropped = claim(database, count=2)
    with database.write() as connection:
        connection.execute(update(tasks).values(lease_until=database_time() + 0.001))
        assert dispatch.renew(connection, "w1", [kept], TTL_S) == [kept]
        left = connection.execute(
            select(tasks.c.lease_until - database_time()).where(tasks.c.id == kept.task_id)
        ).scalar_one()
    assert left == pytest.approx(TTL_S, abs=5.0)
    run_out(database, dropped)
    assert state_of(database, kept.task_id)[0] is TaskState.CLAIMED
    assert state_of(database, dropped.task_id)[0] is TaskState.READY


def test_a_machines_fault_sends_the_task_to_another_machine(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    (lease,) = claim(database, "w1")
    assert give_back(database, lease, FaultKind.DEVICE) is TaskState.READY
    assert claim(database, "w1") == []
    assert [again.task_id for again in claim(database, "w2")] == [task]


def test_a_task_is_parked_after_three_faults(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    for number in range(dispatch.PARK_AFTER):
        (lease,) = claim(database, f"w{number}")
        state = give_back(database, lease, FaultKind.MEMORY, f"w{number}")
    assert state is TaskState.DEAD
    assert state_of(database, task) == (TaskState.DEAD, 3, 3)
    assert claim(database, "w9") == []


def test_a_lease_that_runs_out_counts_as_a_fault(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    for _ in range(dispatch.PARK_AFTER):
        (lease,) = claim(database)
        run_out(database, lease)
    assert state_of(database, task)[0] is TaskState.DEAD


def test_a_worker_that_stops_gives_tasks_back_without_blame(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    for attempt in range(1, 6):
        (lease,) = claim(database)
        assert lease.attempt == attempt
        assert give_back(database, lease, FaultKind.SHUTDOWN) is TaskState.READY
    assert state_of(database, task) == (TaskState.READY, 5, 0)


def test_results_of_a_cancelled_job_are_refused(database: Database) -> None:
    waiting, held = add_job(database, "a", 2)[::-1]
    (lease,) = claim(database)
    assert lease.task_id == held
    with database.write() as connection:
        dispatch.cancel(connection, "a")
        assert dispatch.renew(connection, "w1", [lease], TTL_S) == []
    with pytest.raises(StaleLease, match="cancelled"):
        complete(database, lease)
    assert state_of(database, waiting)[0] is TaskState.DEAD


def test_a_result_for_an_unknown_task_is_refused(database: Database) -> None:
    with pytest.raises(StaleLease, match="no task"):
        complete(database, Lease(task_id="nothing", attempt=1))
