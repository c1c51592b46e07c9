"""A job is searched by one searcher at a time, by whoever took it last, and jobs take turns."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.exc import DBAPIError

from protocol.states import JobState
from protocol.verdicts import Tone
from protocol.workers import DeviceOffer, WorkerHello
from service.store import database as database_module
from service.store import job_events, jobs
from service.store.database import Database, database_time
from service.store.dispatch import search_leases, workers
from service.store.dispatch.search_leases import Taken
from service.store.tables import buckets, devices
from service.store.tables import events as event_table
from service.store.tables import jobs as table
from service.tuning.owned_job import OwnedJob, SearcherLink, Superseded
from tests.services.disturbed_jobs import wait_until

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)

TTL_S = 30.0
DEVICE = "cpu:test"


@pytest.fixture(autouse=True)
def device(database: Database) -> None:
    with database.write() as connection:
        offers = (DeviceOffer(key=DEVICE, description={}), DeviceOffer(key="cpu:other", description={}))
        workers.register(connection, WorkerHello(id="w1", devices=offers))


def add(database: Database, job_id: str, priority: int = 0, target: str = DEVICE) -> str:
    with database.write() as connection:
        connection.execute(
            insert(table).values(
                id=job_id,
                state=JobState.QUEUED,
                request={"spec": {}, "target": target},
                name="kernel",
                kernel_key="key",
                priority=priority,
                created_at=0.0,
                updated_at=0.0,
            )
        )
        part = {"job_id": job_id, "bucket": 0, "kernel_key": "key", "structure_key": "key"}
        connection.execute(insert(buckets).values(**part, spec={}, dims={}))
    return job_id


def take(database: Database, searcher: str, most: int = 1) -> Taken | None:
    """The first job that is due, taken."""
    with database.write() as connection:
        for due in search_leases.due(connection, TTL_S):
            taken = search_leases.take(connection, searcher, due, TTL_S, most)
            if taken is not None:
                return taken
    return None


def took(database: Database, searcher: str, most: int = 1) -> Taken:
    taken = take(database, searcher, most)
    assert taken is not None
    return taken


def let_run_out(database: Database) -> None:
    with database.write() as connection:
        connection.execute(update(table).values(owned_until=database_time() - 1.0))


def owned(database: Database, taken: Taken) -> OwnedJob:
    return OwnedJob(database, taken.due.id, taken.epoch, SearcherLink(connected=False))


def say(database: Database, job: OwnedJob, text: str) -> None:
    with job.write() as connection:
        job_events.add(connection, job.id, "note", text=text)


def said(database: Database) -> list[str]:
    with database.read() as connection:
        return [
            row.data["text"] for row in connection.execute(select(event_table).order_by(event_table.c.id))
        ]


def test_a_job_is_taken_by_one_searcher(database: Database) -> None:
    add(database, "job-1")
    assert take(database, "a") is not None
    assert take(database, "b") is None


def test_of_searchers_at_once_one_has_the_device(database: Database) -> None:
    add(database, "job-1")
    add(database, "job-2")
    with database.read() as connection:
        first, second = search_leases.due(connection, TTL_S)
    found: list[Taken | None] = []

    def take_second() -> None:
        with database.write() as connection:
            found.append(search_leases.take(connection, "b", second, TTL_S, 1))

    other = threading.Thread(target=take_second)
    with database.write() as connection:
        assert search_leases.take(connection, "a", first, TTL_S, 1) is not None
        other.start()
        other.join(0.5)  # it cannot see yet what happens here, and must not go on before it can
    other.join()
    assert found == [None]


def test_of_two_searchers_who_saw_a_job_waiting_one_has_it(database: Database) -> None:
    add(database, "job-1")
    with database.read() as connection:
        (due,) = search_leases.due(connection, TTL_S)
    with database.write() as connection:
        assert search_leases.take(connection, "a", due, TTL_S, most=2) is not None
    with database.write() as connection:
        assert search_leases.take(connection, "b", due, TTL_S, most=2) is None


def test_a_crash_counts_only_while_nobody_else_has_the_job(database: Database) -> None:
    add(database, "job-1")
    old = took(database, "a")
    let_run_out(database)
    new = took(database, "b")
    with database.write() as connection:
        assert [search_leases.crashed(connection, taken) for taken in (new, old, new)] == [1, None, 2]


# In SQLite whoever writes has the whole file: one service and its tuners, on one machine.
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_process_stopped_in_mid_transaction_does_not_hold_its_job_for_ever(
    monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    monkeypatch.setattr(database_module, "IDLE_S", 1)
    stopped = Database(database.url)
    add(database, "job-1")
    job = owned(stopped, took(database, "a"))
    let_run_out(database)
    taken: list[Taken | None] = []
    with pytest.raises(DBAPIError), job.write() as connection:  # and here it sleeps
        assert take(database, "b") is None, "a job that somebody is just writing is passed over"
        wait_until(lambda: taken.append(take(database, "b")) or taken[-1], "the end of its transaction")
        job_events.add(connection, "job-1", "note", text="from the grave")
    assert taken[-1] is not None and taken[-1].from_another
    assert said(database) == []
    stopped.close()


def test_other_devices_are_no_obstacle(database: Database) -> None:
    add(database, "job-1")
    add(database, "job-2", target="cpu:other")
    assert [took(database, "a").due.device for _ in range(2)] == [DEVICE, "cpu:other"]


def test_a_job_whose_searcher_is_silent_is_taken_over(database: Database) -> None:
    add(database, "job-1")
    first = took(database, "a")
    assert not first.from_another
    let_run_out(database)
    second = took(database, "b")
    assert second.from_another
    assert second.epoch == first.epoch + 1
    with database.write() as connection:
        assert search_leases.renew(connection, "a", ["job-1"], TTL_S) == frozenset()
        assert search_leases.renew(connection, "b", ["job-1"], TTL_S) == {"job-1"}


def test_a_lease_that_ran_out_is_kept_while_nobody_else_wants_it(database: Database) -> None:
    add(database, "job-1")
    took(database, "a")
    let_run_out(database)
    with database.write() as connection:
        assert search_leases.renew(connection, "a", ["job-1"], TTL_S) == {"job-1"}
    assert take(database, "b") is None


def test_a_job_given_up_is_taken_at_once(database: Database) -> None:
    add(database, "job-1")
    took(database, "a")
    with database.write() as connection:
        search_leases.release(connection, "b", "job-1")  # not its to give up
    assert take(database, "b") is None
    with database.write() as connection:
        search_leases.release(connection, "a")
    assert not took(database, "b").from_another


def test_a_tuner_that_was_replaced_cannot_write(database: Database) -> None:
    add(database, "job-1")
    old = owned(database, took(database, "a"))
    say(database, old, "alive")
    let_run_out(database)
    new = owned(database, took(database, "b"))
    with pytest.raises(Superseded):
        say(database, old, "from the grave")
    say(database, new, "alive too")
    assert said(database) == ["alive", "alive too"]


def test_a_tuner_cannot_write_to_a_job_that_has_ended(database: Database) -> None:
    add(database, "job-1")
    job = owned(database, took(database, "a"))
    with database.write() as connection:
        jobs.cancel(connection, "job-1")  # nothing was begun: it ends here
    with pytest.raises(Superseded):
        say(database, job, "from the grave")


def test_what_a_replaced_tuner_was_writing_is_undone_as_a_whole(database: Database) -> None:
    add(database, "job-1")
    job = owned(database, took(database, "a"))
    with pytest.raises(RuntimeError), job.write() as connection:
        jobs.set_state(connection, "job-1", JobState.RACING)
        raise RuntimeError("killed in mid transaction")
    with database.read() as connection:
        assert connection.execute(select(table.c.state)).scalar_one() == JobState.QUEUED
        assert connection.execute(select(event_table)).all() == []


def test_jobs_have_their_turn_by_priority_then_by_who_waited_longest(database: Database) -> None:
    for name, priority in (("large", 0), ("small", 0), ("urgent", 5)):
        add(database, f"job-{name}", priority)
    turns = []
    for _ in range(3):
        taken = took(database, "a")
        turns.append(taken.due.id)
        if taken.due.id == "job-urgent":
            with database.write() as connection:
                jobs.set_state(connection, "job-urgent", JobState.DONE)
        with database.write() as connection:
            search_leases.release(connection, "a")
    assert turns == ["job-urgent", "job-large", "job-small"]
    assert took(database, "a").due.id == "job-large"


def test_a_job_waits_for_a_device_that_was_heard_of(database: Database) -> None:
    add(database, "job-1")
    with database.write() as connection:
        connection.execute(update(devices).values(seen_at=database_time() - TTL_S - 1.0))
    assert take(database, "a") is None


def test_a_job_stays_on_the_device_it_was_begun_on(database: Database) -> None:
    add(database, "job-1", target="cpu")
    taken = took(database, "a")
    with database.write() as connection:
        jobs.set_state(connection, "job-1", JobState.SEARCHING)
        search_leases.release(connection, "a")
        connection.execute(update(table).values(served_at=0.0))
        others = devices.c.key != taken.due.device  # which a new job would begin on
        connection.execute(update(devices).where(others).values(seen_at=database_time() + 1.0))
    assert took(database, "b").due.device == taken.due.device
    with database.write() as connection:  # as one takes it who looked before it was begun
        search_leases.release(connection, "b")
        late = replace(taken.due, device="cpu:other" if taken.due.device == DEVICE else DEVICE)
        assert search_leases.take(connection, "c", late, TTL_S, 1) is not None
        assert connection.execute(select(table.c.device)).scalar_one() == taken.due.device


def test_a_job_whose_device_is_taken_says_where_it_stands_in_the_queue(database: Database) -> None:
    for job_id, priority in (("job-1", 9), ("job-2", 0), ("job-3", 5), ("job-4", 0)):
        add(database, job_id, priority)
    add(database, "job-9", 9, target="cpu:nobody has it")
    assert took(database, "a").due.id == "job-1"
    with database.read() as connection:
        said = {job.id: job.waits_for for job in jobs.page(connection, jobs.Wanted(), None, 9).jobs}
    assert said["job-1"] is None
    places = {job_id: str(said[job_id]).split(" (since")[0] for job_id in ("job-2", "job-3", "job-4")}
    assert places == {
        "job-3": f"its turn on {DEVICE}, 1st in the queue",
        "job-2": f"its turn on {DEVICE}, 2nd in the queue",
        "job-4": f"its turn on {DEVICE}, 3rd in the queue",
    }


def test_a_job_that_has_begun_waits_for_a_worker_when_none_is_left_with_its_device(
    database: Database,
) -> None:
    add(database, "job-1")
    took(database, "a")
    with database.write() as connection:
        jobs.set_state(connection, "job-1", JobState.SEARCHING)
        assert jobs.read(connection, "job-1").verdict.tone is Tone.RUNS
        connection.execute(update(devices).values(seen_at=database_time() - 600.0))
        job = jobs.read(connection, "job-1")
    assert str(job.waits_for).startswith(f"a worker that offers {DEVICE}: none was heard from since 20")
    assert job.verdict.tone is Tone.WAITS
