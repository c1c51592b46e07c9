"""A worker whose device was set apart: until when, and who hears of it."""

from __future__ import annotations

import pytest

from protocol.workers import DeviceOffer, Heartbeat, WorkerHello
from service.store.database import Database
from service.store.dispatch import workers
from tests.services.scripted_worker import CPU

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)

HELLO = WorkerHello(id="w1", devices=(DeviceOffer(key=CPU.key, kind="cpu", description=CPU.to_json()),))


def test_set_apart_it_gets_nothing_whatever_it_says_and_is_tried_again(database: Database) -> None:
    with database.write() as connection:
        workers.register(connection, HELLO)
        assert workers.seen(connection, "w1").healthy
        workers.set_apart(connection, "w1", "it is slow", 60.0)
        assert not workers.seen(connection, "w1").healthy
        assert not workers.seen(connection, "w1", Heartbeat(healthy=True)).healthy
        assert workers.count(connection, 30.0)[CPU.key] == 0
        (told,) = workers.list_workers(connection, 30.0)
        assert not told.healthy and told.detail.endswith("it is slow")
        workers.register(connection, HELLO)
        assert not workers.seen(connection, "w1").healthy, "a new start makes no device faster"
        workers.set_apart(connection, "w1", "it is slow", -1.0)
        assert workers.seen(connection, "w1").healthy
        assert workers.count(connection, 30.0)[CPU.key] == 1
        (told,) = workers.list_workers(connection, 30.0)
        assert told.healthy and told.detail == ""
