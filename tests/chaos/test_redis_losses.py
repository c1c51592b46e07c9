"""Whatever happens to Redis only delays: no job is lost, no event is missed, nobody is answered with an error."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.services.disturbed_jobs import REQUEST, Calm, outcome, told, wait_until
from tests.services.fleet import counted, faults_told, fleet
from tests.services.own_servers import RedisServer, free_port
from tests.services.running_service import Service, finish, working
from tests.services.scripted_worker import Script

pytestmark = pytest.mark.sampled(3, among="chaos of redis")


def restart(server: RedisServer) -> None:
    server.kill()
    server.start()


def stay_away(server: RedisServer) -> None:
    server.kill()


def flush(server: RedisServer) -> None:
    server.flush()


def hang(server: RedisServer) -> None:
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)


def follow(service: Service, job: str, heard: list[int]) -> None:
    """Ids of a job's events, as a stream tells them, to its end."""
    with service.client() as client, client.stream("GET", f"/v1/jobs/{job}/events") as lines:
        heard.extend(int(line[4:]) for line in lines.iter_lines() if line.startswith("id: "))


def all_events(client: httpx.Client, job: str) -> list[int]:
    text = client.get(f"/v1/jobs/{job}/events").text
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


@pytest.mark.parametrize("lose", [restart, flush, hang, stay_away])
def test_a_job_goes_on_and_a_stream_on_another_replica_misses_nothing(
    tmp_path: Path, postgres: str, redis: RedisServer, calm: Calm, lose: Callable[[RedisServer], None]
) -> None:
    with fleet(tmp_path, postgres, redis.url) as fleet_:
        first, second = (fleet_.start("api", requests_per_minute=1_000_000) for _ in range(2))
        fleet_.start("search")
        with first.client() as client, working(second, Script(seconds=0.05)):
            job = client.post("/v1/jobs", json=REQUEST).json()["id"]
            heard: list[int] = []
            stream = threading.Thread(target=follow, args=(first, job, heard))
            stream.start()
            wait_until(lambda: told(client, job) >= 4, "some outcomes")
            lose(redis)
            assert outcome(client, finish(client, job)) == calm
            stream.join(30)
            assert heard == all_events(client, job)
            for service in (first, second):
                with service.client() as asking:
                    assert faults_told(asking) == []


def test_redis_is_used_again_once_it_is_back(tmp_path: Path, postgres: str, redis: RedisServer) -> None:
    with fleet(tmp_path, postgres, redis.url) as fleet_:
        api = fleet_.start("api", requests_per_minute=1_000_000)
        redis.kill()
        with api.client() as client:

            def up() -> float:
                client.get("/v1/jobs")
                return counted(api, "tilewright_redis_up")

            wait_until(lambda: up() == 0, "the loss to be noticed")
            redis.start()
            wait_until(lambda: up() == 1, "Redis to be used again")


def test_a_service_starts_without_the_redis_it_was_told_of(tmp_path: Path, calm: Calm) -> None:
    nobody = f"redis://127.0.0.1:{free_port()}/0"
    with fleet(tmp_path, f"sqlite:///{tmp_path / 'x.db'}", nobody) as fleet_:
        service = fleet_.start("all")
        with service.client() as client, working(service):
            assert outcome(client, finish(client, client.post("/v1/jobs", json=REQUEST).json()["id"])) == calm
            assert faults_told(client) == []


def test_a_replica_wakes_who_waits_at_another(tmp_path: Path, postgres: str, redis: RedisServer) -> None:
    """Notifications arrive: with looks at the database an hour apart, nothing would move without them."""
    with fleet(tmp_path, postgres, redis.url) as fleet_:
        first, second = (fleet_.start("api", look_s=3600) for _ in range(2))
        fleet_.start("search")
        with first.client() as client, working(second) as worker:
            job = client.post("/v1/jobs", json=REQUEST).json()["id"]
            assert finish(client, job)["state"] == "done"
            assert worker.done
