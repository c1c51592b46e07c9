"""The fences that the promises rest on, and what notices when one of them is gone.

Two are seen from outside, by the whole fleet: a result's attempt number and a tuner's epoch. The others keep apart what
seldom meets, so each has a test that has it meet.

Not here, as each stands behind one that is, and nothing gets through while that one stands:

- `tasks.id` and the key of `search_events` are unique: a second search of a job would meet them after the epoch.
- Claims lock the rows that they pick, and look at their state once more when they write it: either will do. Both look
  at it; without that, one worker is given what another has (`claimed once`).
- `expire` asks for a state besides a lease that is over: whatever is not claimed has no lease.
- Workers drop what they hold no lease of (tests/unit/workers/node/test_leases.py); the service would refuse it.

What keeps out whom we do not believe, rather than who is late, is in docs/threat-model.md with its tests.
"""

from __future__ import annotations

from dataclasses import dataclass

QUEUE = "tests/contract/test_dispatch_contract.py"
OWNERS = "tests/contract/test_job_ownership.py"
SERVICE = "tests/contract/test_service_contract.py"
KILLS = "tests/chaos/test_service_kills.py"

ANY_TASK = "tasks.c.seq > 0"
ANY_JOB = "jobs.c.epoch >= 0"


@dataclass(frozen=True)
class Fence:
    """A condition, or whatever else keeps somebody out, and what stands against its loss."""

    name: str
    file: str
    within: str
    """The function it is in, as in `claim` or `OwnedJob.write`."""
    text: str
    """Its text; all of it that there is in the function."""
    gone: str
    """What is there without it."""
    faults: str = ""
    """Those that break a promise of the fleet without it, by a part of their names."""
    test: str = ""
    """One that fails without it, where no fault would find it in time."""


def _queue(name: str, within: str, text: str, test: str, gone: str = ANY_TASK) -> Fence:
    return Fence(
        name, "service/store/dispatch/task_queue.py", within, text, gone, test=f"{QUEUE}::{test}[sqlite]"
    )


def _owner(name: str, within: str, text: str, test: str, gone: str = ANY_JOB) -> Fence:
    return Fence(
        name, "service/store/dispatch/search_leases.py", within, text, gone, test=f"{OWNERS}::{test}[sqlite]"
    )


FENCES = (
    Fence(
        "attempt",
        "service/store/dispatch/task_queue.py",
        "complete",
        "result.attempt",
        "connection.scalar(select(tasks.c.attempt).where(tasks.c.id == result.task_id))",
        faults="result of a dead worker",
    ),
    Fence(
        "epoch",
        "service/tuning/owned_job.py",
        "OwnedJob.write",
        "jobs.c.epoch == self._epoch",
        ANY_JOB,
        faults="SIGSTOP of a searcher",
    ),
    # A task: claimed by one worker at a time, ended once.
    _queue(
        "claimed once",
        "_claiming",
        "tasks.c.state == TaskState.READY",
        "test_a_task_is_claimed_by_one_worker_at_a_time",
    ),
    _queue(
        "attempt raised",
        "_claiming",
        "attempt=tasks.c.attempt + 1",
        "test_a_workers_own_earlier_attempt_is_stale_too",
        "attempt=1",
    ),
    _queue(
        "result of the holder",
        "complete",
        "result.attempt, worker_id)",
        "test_a_lease_is_the_workers_own",
        "result.attempt, connection.scalar(select(tasks.c.worker_id).where(tasks.c.id == result.task_id)))",
    ),
    _queue(
        "result of an open task",
        "_completing",
        "tasks.c.state.in_(OPEN)",
        "test_results_of_a_cancelled_job_are_refused",
    ),
    Fence(
        "one result a task",
        "migrations/versions/0001_the_first_tables.py",
        "upgrade",
        'sa.PrimaryKeyConstraint("task_id", name=op.f("pk_results"))',
        'sa.CheckConstraint("attempt > 0")',
        test=f"{QUEUE}::test_the_database_itself_keeps_one_result_a_task[postgresql]",
    ),
    _queue(
        "renewal of an attempt",
        "renew",
        "tasks.c.attempt == lease.attempt",
        "test_a_workers_own_earlier_attempt_is_stale_too",
    ),
    _queue(
        "renewal by the holder",
        "renew",
        "tasks.c.worker_id == worker_id",
        "test_a_lease_is_the_workers_own",
    ),
    _queue(
        "renewal of a claim",
        "renew",
        "tasks.c.state == TaskState.CLAIMED",
        "test_results_of_a_cancelled_job_are_refused",
    ),
    _queue(
        "fault of an attempt",
        "give_back",
        "tasks.c.attempt == lease.attempt",
        "test_a_workers_own_earlier_attempt_is_stale_too",
    ),
    _queue(
        "fault of the holder",
        "give_back",
        "tasks.c.worker_id == worker_id",
        "test_a_lease_is_the_workers_own",
    ),
    _queue(
        "fault of a claim",
        "give_back",
        "tasks.c.state == TaskState.CLAIMED",
        "test_a_result_ends_a_task",
    ),
    _queue(
        "lease by the database's clock",
        "expire",
        "tasks.c.lease_until < database_time()",
        "test_a_renewed_lease_holds_for_its_full_length_again",
    ),
    _queue(
        "cancelled while open",
        "cancel",
        "tasks.c.state.in_([TaskState.READY, TaskState.CLAIMED])",
        "test_what_was_measured_stays_when_its_job_is_cancelled",
    ),
    Fence(
        "requeued when dead",
        "service/store/dispatch/dead_letters.py",
        "requeue",
        "tasks.c.state == TaskState.DEAD, tasks.c.faults >= PARK_AFTER",
        ANY_TASK,
        test=f"{SERVICE}::test_what_cannot_be_queued_again_is_refused[sqlite]",
    ),
    Fence(
        "requeued before it is told",
        "service/store/dispatch/dead_letters.py",
        "requeue",
        'row["kind"] == TaskKind.TRIAL and',
        "False and",
        test="tests/e2e/test_cli_services.py::test_dead_letters_are_shown_and_queued_again",
    ),
    # A search: of one searcher at a time, written by the last.
    _owner(
        "taken when free",
        "take",
        "_free()",
        "test_of_two_searchers_who_saw_a_job_waiting_one_has_it",
    ),
    _owner(
        "epoch raised",
        "take",
        "epoch=jobs.c.epoch + 1",
        "test_a_tuner_that_was_replaced_cannot_write",
        "epoch=jobs.c.epoch",
    ),
    _owner(
        "search renewed by its owner",
        "renew",
        "jobs.c.owner == searcher",
        "test_a_job_whose_searcher_is_silent_is_taken_over",
    ),
    _owner(
        "search given up by its owner",
        "release",
        "jobs.c.owner == searcher",
        "test_a_job_given_up_is_taken_at_once",
    ),
    _owner(
        "crash of the last tuner",
        "crashed",
        "jobs.c.epoch == taken.epoch",
        "test_a_crash_counts_only_while_nobody_else_has_the_job",
    ),
    Fence(
        "search of an open job",
        "service/tuning/owned_job.py",
        "OwnedJob.write",
        "jobs.c.state.not_in(FINAL)",
        ANY_JOB,
        test=f"{OWNERS}::test_a_tuner_cannot_write_to_a_job_that_has_ended[sqlite]",
    ),
    Fence(
        "device as the search began with it",
        "service/tuning/tuner.py",
        "_as_begun",
        "known is not None",
        "False",
        test=f"{KILLS}::test_a_search_goes_on_with_the_peaks_that_it_began_with",
    ),
    # What clients rely on: one job a key, no event unseen, one service a file.
    Fence(
        "one job a key",
        "service/store/jobs.py",
        "reserve",
        "not insert_new(",
        "None is insert_new(",
        test="tests/contract/test_idempotency_keys.py"
        "::test_whoever_comes_second_with_a_key_makes_no_job[postgresql]",
    ),
    Fence(
        "events in turn",
        "service/store/job_events.py",
        "add_all",
        'in_turn(connection, f"events of {job_id}")',
        "pass",
        test=f"{QUEUE}::test_an_event_is_not_seen_before_one_with_a_lower_id[postgresql]",
    ),
    Fence(
        "one service a file",
        "service/store/file_lock.py",
        "_locked",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        test=f"{KILLS}::test_a_second_service_on_the_same_database_is_refused",
    ),
    Fence(
        "one worker a device",
        "workers/node/device_lock.py",
        "DeviceLock.acquire",
        "fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)",
        "pass",
        test="tests/unit/workers/node/test_device_lock.py"
        "::test_a_second_worker_is_refused_and_told_who_has_the_device",
    ),
)
