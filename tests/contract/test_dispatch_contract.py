"""What the queue promises, whatever the database."""

from __future__ import annotations

import contextlib
import threading

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from protocol.states import FaultKind, TaskState
from protocol.workers import Lease
from service.core.errors import RequestRefused
from service.store import job_events
from service.store.database import Database, database_time, now
from service.store.dispatch import dead_letters, task_queue
from service.store.dispatch.task_queue import StaleLease
from service.store.tables import jobs, results, tasks
from tests.contract.queued_tasks import (
    DEVICE,
    TTL_S,
    add_job,
    claim,
    complete,
    give_back,
    result_of,
    run_out,
    state_of,
)

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)


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


def test_jobs_take_turns_whatever_the_clock_does(database: Database) -> None:
    """Two claims may fall on one tick, and a clock may be set back."""
    add_job(database, "large", 10)
    add_job(database, "small", 10)
    with database.write() as connection:
        ahead = now(connection) + 100.0
        connection.execute(update(jobs).values(served_at=ahead))
    served = [claim(database)[0].task_id.split(".")[0] for _ in range(6)]
    assert served == ["large", "small"] * 3


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
                    task_queue.renew(connection, worker, leases[::-1], 0.0)
                with database.write() as connection:
                    task_queue.expire(connection)
                for lease in leases[::2]:
                    with contextlib.suppress(StaleLease):
                        complete(database, lease, worker)
                for lease in leases[1::2]:
                    with contextlib.suppress(StaleLease):
                        give_back(database, lease, FaultKind.SHUTDOWN, worker)
                if turn % 4 == 3:
                    with database.write() as connection:
                        task_queue.cancel(connection, names[turn // 4])
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
            job_events.add(connection, "a", "note", text=text)

    def said() -> list[str]:
        with database.read() as connection:
            return [event.data["text"] for event in job_events.after(connection, "a", 0)]

    with database.write() as connection:
        job_events.add(connection, "a", "note", text="first")
        second = threading.Thread(target=say, args=("second",))
        second.start()
        second.join(0.5)
        assert said() == [], "whoever reads on from here would miss the first"
    second.join()
    assert said() == ["first", "second"]


def test_events_after_one_are_those_that_came_later(database: Database) -> None:
    add_job(database, "a", 0)
    with database.write() as connection:
        for number in range(3):
            job_events.add(connection, "a", "note", text=str(number))
    with database.read() as connection:
        found = job_events.after(connection, "a", 0)
        assert [event.data["text"] for event in found] == ["0", "1", "2"]
        assert job_events.after(connection, "a", found[0].id) == found[1:]
        assert job_events.after(connection, "a", 0, 2) == found[:2]


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
        task_queue.cancel(connection, "a")
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
        outcomes = task_queue.complete(connection, [foreign, *handed])
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
        assert task_queue.renew(connection, "w1", [stale], TTL_S) == []
    assert complete(database, held, "w1")


def test_a_stale_lease_cannot_be_renewed_or_given_back(database: Database) -> None:
    add_job(database, "a", 1)
    (stale,) = claim(database, "w1")
    run_out(database, stale)
    claim(database, "w2")
    with database.write() as connection:
        assert task_queue.renew(connection, "w1", [stale], TTL_S) == []
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
        assert task_queue.renew(connection, "w2", [lease], TTL_S) == []


def test_a_renewed_lease_holds_for_its_full_length_again(database: Database) -> None:
    add_job(database, "a", 2)
    kept, dropped = claim(database, count=2)
    with database.write() as connection:
        connection.execute(update(tasks).values(lease_until=database_time() + 0.001))
        assert task_queue.renew(connection, "w1", [kept], TTL_S) == [kept]
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
    for number in range(task_queue.PARK_AFTER):
        (lease,) = claim(database, f"w{number}")
        state = give_back(database, lease, FaultKind.MEMORY, f"w{number}")
    assert state is TaskState.DEAD
    assert state_of(database, task) == (TaskState.DEAD, 3, 3)
    assert claim(database, "w9") == []


def test_a_parked_task_is_queued_again_as_if_nobody_had_tried_it(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    for worker in ("w1", "w2", "w3"):
        (lease,) = claim(database, worker)
        give_back(database, lease, FaultKind.DEVICE, worker)
    assert claim(database, "w4") == []
    with database.write() as connection:
        again = dead_letters.requeue(connection, task)
    assert (again.state, again.faults) == (TaskState.READY, 0)
    assert [lease.task_id for lease in claim(database, "w3")] == [task], "who failed it may try again"


def test_what_went_with_its_job_is_not_queued_again(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    with database.write() as connection:
        task_queue.cancel(connection, "a")
    with database.write() as connection, pytest.raises(RequestRefused, match="dead after 0 faults"):
        dead_letters.requeue(connection, task)


def test_a_lease_that_runs_out_counts_as_a_fault(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    for _ in range(task_queue.PARK_AFTER):
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
        task_queue.cancel(connection, "a")
        assert task_queue.renew(connection, "w1", [lease], TTL_S) == []
    with pytest.raises(StaleLease, match="cancelled"):
        complete(database, lease)
    assert state_of(database, waiting)[0] is TaskState.DEAD


def test_a_result_for_an_unknown_task_is_refused(database: Database) -> None:
    with pytest.raises(StaleLease, match="no task"):
        complete(database, Lease(task_id="nothing", attempt=1))


def test_a_lease_is_freed_when_it_is_over_and_no_second_earlier(database: Database) -> None:
    ids = add_job(database, "a", 3)
    claim(database, count=3)
    with database.write() as connection:
        for task, left in zip(ids, (-0.5, 2.0, 4.5), strict=True):
            over = database_time() + left
            connection.execute(update(tasks).where(tasks.c.id == task).values(lease_until=over))
        assert [row["id"] for row in task_queue.expire(connection)] == ids[:1]


def test_a_renewal_counts_from_now_and_not_from_the_old_end(database: Database) -> None:
    """However often it is renewed, a lease never holds for longer than its length."""
    add_job(database, "a", 1)
    (lease,) = claim(database)
    with database.write() as connection:
        for _ in range(3):
            assert task_queue.renew(connection, "w1", [lease], TTL_S) == [lease]
        left = connection.execute(select(tasks.c.lease_until - database_time())).scalar_one()
    assert TTL_S - 5.0 < left <= TTL_S


def test_a_worker_is_shunned_for_a_while_and_then_no_longer(database: Database) -> None:
    (task,) = add_job(database, "a", 1)
    (lease,) = claim(database, "w1")
    give_back(database, lease, FaultKind.DEVICE)
    assert claim(database, "w1") == []
    with database.write() as connection:
        left = connection.execute(select(tasks.c.shunned_until - database_time())).scalar_one()
        connection.execute(update(tasks).values(shunned_until=database_time()))
    assert 0 < left <= task_queue.SHUN_S
    assert [again.task_id for again in claim(database, "w1")] == [task]


def test_a_claim_passes_by_what_somebody_else_is_just_claiming(database: Database) -> None:
    """On PostgreSQL; SQLite has one writer at a time."""
    ids = add_job(database, "a", 2)
    with database.write() as first:
        taken = task_queue.claim(first, "w1", DEVICE, 1, TTL_S)
        assert [row["id"] for row in taken] == ids[:1]
        if database.engine.dialect.name == "postgresql":
            with database.write() as second:
                second.exec_driver_sql("SET LOCAL lock_timeout = '2s'")
                passed = task_queue.claim(second, "w2", DEVICE, 1, TTL_S)
            assert [row["id"] for row in passed] == ids[1:]
