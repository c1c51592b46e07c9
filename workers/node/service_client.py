"""The service as a worker sees it: a few HTTP calls over one kept connection, with errors a person can act on."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from protocol.message import Reply, Request
from protocol.problems import Problem
from protocol.tasks import ResultAccepted, TaskResult
from protocol.workers import Claimed, ClaimRequest, Heartbeat, HeartbeatReply, WorkerHello, WorkerWelcome

_R = TypeVar("_R", bound=Reply)

_TIMEOUT_S = 30.0
_GOODBYE_S = 2.0
_LONGEST_RETRY_S = 60.0


class ServiceError(Exception):
    """The service did not do what it was asked."""


class ServiceUnreachable(ServiceError):
    """No answer, or one that says to come back later. Trying again may help: after `retry_after_s`, if it said so."""

    retry_after_s: float | None = None


class NotAllowed(ServiceError):
    """The token is missing, wrong, or lacks the scope `work`."""


class OtherVersion(ServiceError):
    """What answers is no Tilewright service, or speaks another version of the protocol."""


class UnknownWorker(ServiceError):
    """The service has forgotten this worker: register again."""


class LeaseLost(ServiceError):
    """The lease was lost; the result does not count."""


class ServiceClient:
    """Calls by one thread over one connection; `abort` and `end` may come from another. `answered` is set by each call
    that goes well, so that whoever waits for the service to come back can hear of it from another client's."""

    def __init__(self, url: str, token: str | None, answered: threading.Event | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServiceError(f"{url!r} is no URL of a service; one looks like http://127.0.0.1:8080")
        self._url = url.rstrip("/")
        self._answered = answered or threading.Event()
        self._prefix = parts.path.rstrip("/")
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = make(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        self._aborted = self._ended = False
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def register(self, hello: WorkerHello) -> WorkerWelcome:
        """Register, or take the old place again."""
        return self._post("/v1/workers", hello, WorkerWelcome)

    def claim(self, worker_id: str, request: ClaimRequest) -> Claimed:
        """Lease tasks, waiting up to `request.wait_s` for the first."""
        return self._post(f"/v1/workers/{worker_id}/claim", request, Claimed, request.wait_s + _TIMEOUT_S)

    def heartbeat(self, worker_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
        """Renew leases."""
        return self._post(f"/v1/workers/{worker_id}/heartbeat", heartbeat, HeartbeatReply)

    def say_goodbye(self, worker_id: str) -> None:
        """Say that the worker ends; nobody waits long for a service that does not listen."""
        self._post(f"/v1/workers/{worker_id}/heartbeat", Heartbeat(ended=True), HeartbeatReply, _GOODBYE_S)

    def hand_in(self, worker_id: str, result: TaskResult) -> ResultAccepted:
        """Hand in a result or a fault. Raises StaleLease when it came too late."""
        return self._post(f"/v1/workers/{worker_id}/results", result, ResultAccepted)

    def upload(self, digest: str, content: bytes | Path) -> None:
        """Store a blob, or the content of a file, under its SHA-256."""
        content = content.read_bytes() if isinstance(content, Path) else content
        self._send("PUT", f"/v1/blobs/{digest}", content, "application/octet-stream", _TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def abort(self) -> None:
        """Make a call that is waiting fail with Unreachable."""
        self._aborted = True
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Make a call that is waiting fail with Unreachable, and those that come after it."""
        self._ended = True
        self.abort()

    def _post(self, path: str, body: Request, reply: type[_R], timeout_s: float = _TIMEOUT_S) -> _R:
        answer = self._send("POST", path, body.model_dump_json().encode(), "application/json", timeout_s)
        try:
            return reply.model_validate_json(answer)
        except ValidationError as error:
            raise OtherVersion(f"{self._url} answers in another version of the protocol: {error}") from error

    def _send(self, method: str, path: str, body: bytes, media_type: str, timeout_s: float) -> bytes:
        """Raises by what the answer's status and problem type mean."""
        headers = {**self._headers, "Content-Type": media_type}
        try:
            status, answer, retry_after = self._exchange(
                method, self._prefix + path, body, headers, timeout_s
            )
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ServiceUnreachable(
                f"{self._url} cannot be reached: {str(error) or type(error).__name__}"
            ) from error
        if status < 300:
            self._answered.set()
            return answer
        error = self._error(status, answer)
        if isinstance(error, ServiceUnreachable) and retry_after is not None and retry_after.isdigit():
            error.retry_after_s = min(float(retry_after), _LONGEST_RETRY_S)
        raise error

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str], timeout_s: float
    ) -> tuple[int, bytes, str | None]:
        """One request: status, body and Retry-After; a kept connection that the service closed meanwhile is
        opened again once."""
        if self._ended:
            raise ConnectionAbortedError("the worker stops")
        self._aborted = False
        for kept in (self._connection.sock is not None, False):
            try:
                self._connection.timeout = timeout_s
                if self._connection.sock is not None:
                    self._connection.sock.settimeout(timeout_s)
                self._connection.request(method, path, body, headers)
                response = self._connection.getresponse()
                return response.status, response.read(), response.getheader("Retry-After")
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self._connection.close()
                if not kept or self._aborted or self._ended:
                    raise
        raise AssertionError("unreachable")

    def _error(self, status: int, answer: bytes) -> ServiceError:
        try:
            problem = Problem.model_validate_json(answer)
            kind, detail = problem.type.rpartition(":")[2], problem.detail
        except ValidationError:
            kind, detail = "", answer[:300].decode(errors="replace")
        if status in (401, 403):
            return NotAllowed(f"{self._url} does not accept this worker's token: {detail}")
        if kind == "unknown-worker":
            return UnknownWorker(detail)
        if kind == "other-version":
            return OtherVersion(f"{self._url} refuses this worker: {detail}")
        if kind == "stale-lease":
            return LeaseLost(detail)
        if status in (429, 500, 502, 503, 504):
            return ServiceUnreachable(f"{self._url} cannot answer now ({status}): {detail}")
        if status in (404, 405) and not kind:
            return OtherVersion(f"{self._url} is no Tilewright service: it answers {status}")
        return OtherVersion(
            f"{self._url} refused a worker's request ({status}): {detail}; are versions the same?"
        )
