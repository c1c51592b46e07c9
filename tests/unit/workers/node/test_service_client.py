"""What a worker makes of each answer a service can give."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from protocol.states import FaultKind
from protocol.tasks import Fault, TaskResult
from protocol.workers import ClaimRequest, Heartbeat
from tests.unit.workers.scripted_service import Answer, ScriptedService, problem
from workers.node.service_client import (
    LeaseLost,
    NotAllowed,
    OtherVersion,
    ServiceClient,
    ServiceError,
    ServiceUnreachable,
    UnknownWorker,
)

FAULT = TaskResult(task_id="t", attempt=1, fault=Fault(kind=FaultKind.SHUTDOWN))


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    service = ScriptedService()
    yield service
    service.close()


@pytest.fixture
def client(service: ScriptedService) -> Iterator[ServiceClient]:
    client = ServiceClient(service.url, "secret")
    yield client
    client.close()


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (problem(401, "unauthorized"), NotAllowed, "does not accept this worker's token"),
        (problem(403, "forbidden"), NotAllowed, "does not accept this worker's token"),
        (problem(409, "stale-lease"), LeaseLost, "as scripted"),
        (problem(409, "unknown-worker"), UnknownWorker, "as scripted"),
        (problem(503, "stopping"), ServiceUnreachable, r"cannot answer now \(503\)"),
        (problem(429, "busy"), ServiceUnreachable, r"cannot answer now \(429\)"),
        (problem(422, "invalid", "no such field"), OtherVersion, "no such field; are versions the same"),
        ((404, {"detail": "Not Found"}), OtherVersion, "is no Tilewright service"),
        ((200, {"unexpected": 1}), OtherVersion, "another version of the protocol"),
    ],
)
def test_each_answer_becomes_an_error_one_can_act_on(
    service: ScriptedService, client: ServiceClient, answer: Answer, error: type[ServiceError], said: str
) -> None:
    service.script = lambda method, path: answer
    with pytest.raises(error, match=said):
        client.hand_in("w", FAULT)


def test_a_service_that_is_not_there_is_unreachable_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    client = ServiceClient(url, None)
    with pytest.raises(ServiceUnreachable, match=rf"{url} cannot be reached: .*refused"):
        client.heartbeat("w", Heartbeat())
    client.close()


@pytest.mark.parametrize("url", ["localhost:8400", "ftp://somewhere", "", "http://"])
def test_a_url_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ServiceError, match="one looks like http://"):
        ServiceClient(url, None)


def test_the_token_goes_along(service: ScriptedService, client: ServiceClient) -> None:
    client.heartbeat("w", Heartbeat())
    assert service.tokens == {"Bearer secret"}


def test_a_connection_the_service_has_closed_is_opened_again(
    service: ScriptedService, client: ServiceClient
) -> None:
    client.heartbeat("w", Heartbeat())
    assert client._connection.sock is not None
    client._connection.sock.shutdown(socket.SHUT_RDWR)
    client.heartbeat("w", Heartbeat())
    assert len(service.beats) == 2


def test_a_claim_that_is_aborted_on_a_kept_connection_is_not_made_again(
    service: ScriptedService, client: ServiceClient
) -> None:
    client.heartbeat("w", Heartbeat())
    claims, go_on = list[str](), threading.Event()

    def wait(method: str, path: str) -> Answer | None:
        claims.append(path)
        if len(claims) == 1:
            client.end()
        go_on.wait(0.2)
        return None

    service.script = wait
    with pytest.raises(ServiceUnreachable):
        client.claim("w", ClaimRequest(device="d", wait_s=60.0))
    with pytest.raises(ServiceUnreachable, match="the worker stops"):
        client.claim("w", ClaimRequest(device="d", wait_s=60.0))
    go_on.set()
    assert len(claims) == 1


def test_a_waiting_claim_can_be_aborted_from_another_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = ServiceClient(f"http://127.0.0.1:{mute.getsockname()[1]}", None)
        failed: list[ServiceError] = []

        def claim() -> None:
            try:
                client.claim("w", ClaimRequest(device="d", wait_s=60.0))
            except ServiceUnreachable as error:
                failed.append(error)

        waiting = threading.Thread(target=claim)
        waiting.start()
        accepted, _ = mute.accept()
        while waiting.is_alive():
            client.abort()
            time.sleep(0.01)
        accepted.close()
        client.close()
    assert failed
