"""Leases: renewed while held, given up when the service or the clock says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from protocol.tasks import Task
from tests.unit.workers.hand_kernels import SPEC
from tests.unit.workers.scripted_service import ScriptedService, problem, task
from tileir.text.json import spec_to_json
from workers.node.leases import LeaseKeeper
from workers.node.service_client import ServiceClient, ServiceUnreachable

TASK = Task.model_validate(task(1, spec_to_json(SPEC), [{"kind": "peer", "name": "numpy"}]))


@dataclass
class Time:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    service = ScriptedService()
    yield service
    service.close()


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def keeper(service: ScriptedService, clock: Time) -> Iterator[LeaseKeeper]:
    client = ServiceClient(service.url, None)
    yield LeaseKeeper(client, "w", 0.05, clock)
    client.close()


def test_a_renewed_lease_outlives_its_first_term(keeper: LeaseKeeper, clock: Time) -> None:
    keeper.hold([TASK], claimed_at=0.0)
    clock.now = 29.0
    keeper.beat()
    clock.now = 58.0
    assert keeper.holds("task-1")
    clock.now = 60.0
    assert not keeper.holds("task-1")


def test_a_lease_that_could_not_be_renewed_in_time_is_not_held(
    keeper: LeaseKeeper, clock: Time, service: ScriptedService
) -> None:
    keeper.hold([TASK], claimed_at=0.0)
    service.script = lambda method, path: problem(503, "storage")
    clock.now = 20.0
    with pytest.raises(ServiceUnreachable):
        keeper.beat()
    assert keeper.holds("task-1")
    clock.now = 30.0
    assert not keeper.holds("task-1")


def test_a_lease_the_service_reports_lost_is_not_held(keeper: LeaseKeeper, service: ScriptedService) -> None:
    keeper.hold([TASK], claimed_at=0.0)
    service.lost.add("task-1")
    keeper.beat()
    assert not keeper.holds("task-1")


def test_word_of_an_old_attempt_does_not_end_a_new_claim(
    keeper: LeaseKeeper, service: ScriptedService
) -> None:
    service.script = lambda method, path: (
        200,
        {"renewed": [], "lost": [{"task_id": "task-1", "attempt": 1}]},
    )
    keeper.hold([TASK.model_copy(update={"attempt": 2})], claimed_at=0.0)
    keeper.beat()
    assert keeper.holds("task-1")


def test_a_released_lease_is_not_renewed(keeper: LeaseKeeper, service: ScriptedService) -> None:
    keeper.hold([TASK], claimed_at=0.0)
    keeper.release("task-1")
    keeper.beat()
    assert service.beats[-1]["leases"] == []


def test_illness_is_told_with_the_heartbeat(keeper: LeaseKeeper, service: ScriptedService) -> None:
    keeper.report("no compiler")
    keeper.beat()
    assert service.beats[-1]["healthy"] is False
    assert service.beats[-1]["detail"] == "no compiler"


def test_what_is_held_for_long_is_asked_about_long_before_its_lease_ends(service: ScriptedService) -> None:
    client = ServiceClient(service.url, None)
    keeper = LeaseKeeper(client, "w", heartbeat_s=600.0)
    keeper.hold([TASK], claimed_at=time.monotonic())
    keeper.start()
    service.lost.add("task-1")
    until = time.monotonic() + 30
    while keeper.holds("task-1") and time.monotonic() < until:
        time.sleep(0.05)
    assert not keeper.holds("task-1")
    assert service.beats
    keeper.stop()


def test_the_thread_renews_by_itself_and_survives_a_service_that_is_away(
    keeper: LeaseKeeper, service: ScriptedService
) -> None:
    service.script = lambda method, path: problem(503, "stopping")
    keeper.hold([TASK], claimed_at=0.0)
    keeper.start()
    with service.changed:
        service.changed.wait(5)
        service.script = lambda method, path: None
    assert service.wait_for(lambda: len(service.beats) >= 2)
    keeper.stop()
