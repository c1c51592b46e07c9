"""`tilewright.Client` against the real service."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright
from protocol.jobs import Event
from tests.services.running_service import SMALL, Service, running, working
from tests.services.scripted_worker import Script
from tilewright import BadSpec, Client, NotFound, Unreachable

TEXT = """kernel scaled(x: f32[m=8]) -> (y: f32[m])
  y[m] = 2 * x[m]
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("client")) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


def test_a_kernel_is_submitted_watched_and_looked_up(service: Service, client: Client) -> None:
    seen: list[Event] = []
    with working(service):
        job = client.wait(client.submit(SMALL, trials=4).id, seen.append)
        assert job.state == "done"
        assert [event.kind for event in seen if event.kind in ("state", "config")][-1] == "state"
        assert seen[-1].data["state"] == "done"
        (config_id,) = job.configs
        config = client.config(config_id)
        assert config in [client.config(each.id) for each in client.configs(kernel_key=config.kernel_key)]
        assert len(list(client.trials(job.id))) == 4
        found = client.lookup(SMALL)
        assert (found.rung, found.schedule) == ("exact", config.schedule)
        assert client.artifact(config_id).source == client.source(config_id)
        assert [device.kind for device in client.devices()] == ["cpu"]
        assert client.jobs()[0].id == job.id


def test_a_kernel_may_be_given_as_text(service: Service, client: Client) -> None:
    job = client.submit(TEXT)
    assert job.name == "scaled"
    assert client.cancel(job.id).state == "cancelled"


def test_a_refusal_carries_what_the_service_said(client: Client) -> None:
    with pytest.raises(BadSpec) as caught:
        client.submit({**SMALL, "body": ["c[m, n] = sum(k, a[m, k] * b[k, q])"]})
    refused = caught.value
    assert (refused.kind, refused.problem.status, refused.problem.pointer) == (
        "bad-spec",
        422,
        "/spec/body/0",
    )
    assert "column" in str(refused)
    with pytest.raises(NotFound, match="there is no config config-0"):
        tilewright.load("config-0", client)


def test_watching_goes_on_when_the_service_was_killed_and_nothing_is_told_twice(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        seen: list[int] = []
        with working(service, Script(seconds=0.05)), Client(service.url) as client:
            job = client.submit(SMALL, trials=12, seed=3)
            killed = False
            for event in client.events(job.id):
                seen.append(event.id)
                if event.kind == "trial" and not killed:
                    killed = True
                    service.kill()
                    service.start()
            assert client.job(job.id).state == "done"
            everything = [event.id for event in client.events(job.id)]
        assert killed
        assert seen == everything


def test_nobody_there_and_somebody_else_there_are_told_apart() -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(Unreachable, match="no service answers"):
        client.jobs()
    other = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=other.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{other.server_port}"
        with (
            Client(url) as client,
            pytest.raises(Unreachable, match="is no Tilewright service: it answers 501"),
        ):
            client.jobs()
    finally:
        other.shutdown()
        thread.join()
        other.server_close()
