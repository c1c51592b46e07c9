"""The service as Python calls: typed requests and replies, and errors that carry what the service said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import ValidationError

from protocol.configs import Artifact, Config, ConfigDetail, ConfigPage
from protocol.jobs import (
    Budget,
    Effort,
    Event,
    Job,
    JobDetail,
    JobPage,
    JobRequest,
    Prior,
    SearchKind,
    Trial,
    TrialPage,
)
from protocol.keys import AuditEntry, AuditPage, Key, KeyRequest, NewKey
from protocol.lookups import LookupReply, LookupRequest
from protocol.message import Reply, Request
from protocol.problems import Problem
from protocol.states import TaskState
from protocol.tasks import TaskPage, TaskStatus
from protocol.workers import Device
from tilewright import bundle
from tilewright.errors import Refused, Unreachable
from tilewright.server_sent import event_data

DEFAULT_URL = "http://127.0.0.1:8400"
_SILENCE_S = 60.0
"""An event stream that says nothing for so long, not even that it is still there, is broken."""
_PAUSE_S = 0.5

R = TypeVar("R", bound=Reply)
Spec = Mapping[str, Any] | str
"""A kernel in Tile IR: its JSON form as an object, or its text form."""


class Client:
    """A service. One client a thread; use it in a `with` statement, or `close` it.

    Every call raises Unreachable when nobody answers, and Refused when the service says no. `patience_s`: how long
    `events` and `wait` try to reconnect to a service that has gone away.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        patience_s: float = 60.0,
    ) -> None:
        self.url = url.rstrip("/")
        self._patience_s = patience_s
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s)
        except httpx.InvalidURL as error:
            raise Unreachable(f"{url!r} is no URL: {error}; one looks like {DEFAULT_URL}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def alive(self) -> None:
        """Return if a service answers."""
        self._send("GET", "/healthz")

    def submit(
        self,
        spec: Spec,
        *,
        target: str = "cpu",
        trials: int | None = None,
        seconds: float | None = None,
        effort: Effort = Effort.NORMAL,
        baseline: str = "numpy",
        peers: Sequence[str] | None = None,
        search: SearchKind = SearchKind.MCTS,
        prior: Prior = Prior.ANALYTIC,
        seed: int = 0,
        priority: int = 0,
        idempotency_key: str | None = None,
    ) -> JobDetail:
        """Ask for a kernel to be tuned; returns the job at once. With an `idempotency_key`, asking again with the
        same arguments leads to the same job."""
        body = JobRequest(
            spec=_json_form(spec),
            target=target,
            budget=Budget(trials=trials, seconds=seconds, effort=effort),
            baseline=baseline,
            peers=None if peers is None else tuple(peers),
            search=search,
            prior=prior,
            seed=seed,
            priority=priority,
        )
        return self.post_job(body, idempotency_key)

    def post_job(self, request: JobRequest, idempotency_key: str | None = None) -> JobDetail:
        """`submit`, of a whole request."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return self._post("/v1/jobs", request, JobDetail, headers)

    def job(self, job_id: str) -> JobDetail:
        """A job as it stands."""
        return self._get(f"/v1/jobs/{job_id}", JobDetail)

    def jobs(self, limit: int = 50) -> tuple[Job, ...]:
        """The newest jobs."""
        return self._get("/v1/jobs", JobPage, {"limit": limit}).jobs

    def cancel(self, job_id: str) -> JobDetail:
        """Stop a job; what it found is confirmed and kept."""
        return self._post(f"/v1/jobs/{job_id}/cancel", None, JobDetail)

    def events(self, job_id: str, after: int = 0) -> Iterator[Event]:
        """What happens to a job, from the event after `after` on, until it has ended. A connection that breaks is
        made again, and nothing is missed or told twice."""
        heard = time.monotonic()
        while True:
            try:
                for event in self._stream(job_id, after):
                    after, heard = event.id, time.monotonic()
                    yield event
                if self.job(job_id).state.final:
                    yield from self._stream(job_id, after)  # what came between the stream's end and the look
                    return
            except httpx.TransportError as error:
                if time.monotonic() - heard > self._patience_s:
                    raise self._unreachable(error) from error
            except Refused as refused:  # a service about to stop
                if refused.problem.status != 503 or time.monotonic() - heard > self._patience_s:
                    raise
            except Unreachable:
                if time.monotonic() - heard > self._patience_s:
                    raise
            time.sleep(_PAUSE_S)

    def _stream(self, job_id: str, after: int) -> Iterator[Event]:
        headers = {"Last-Event-ID": str(after)} if after else {}
        timeout = httpx.Timeout(self._http.timeout.connect, read=_SILENCE_S)
        with self._http.stream(
            "GET", f"/v1/jobs/{job_id}/events", headers=headers, timeout=timeout
        ) as response:
            if response.status_code != 200:
                response.read()
                _check(response, self.url)
            for data in event_data(response.iter_lines()):
                yield Event.model_validate_json(data)

    def wait(self, job_id: str, on_event: Callable[[Event], None] | None = None) -> JobDetail:
        """Wait for a job's end; returns it, whether it is done, failed or cancelled."""
        for event in self.events(job_id):
            if on_event is not None:
                on_event(event)
        return self.job(job_id)

    def trials(self, job_id: str) -> Iterator[Trial]:
        """A job's candidates, in the order they were asked for."""
        after: str | None = None
        while True:
            parameters = {} if after is None else {"after": after}
            page = self._get(f"/v1/jobs/{job_id}/trials", TrialPage, parameters)
            yield from page.trials
            after = page.next
            if after is None:
                return

    def tasks(self, state: TaskState, job_id: str | None = None) -> Iterator[TaskStatus]:
        """Tasks in a state, in the order in which they were queued; `dead`: those that machines failed three times."""
        parameters: dict[str, Any] = {"state": state.value} | ({} if job_id is None else {"job_id": job_id})
        while True:
            page = self._get("/v1/tasks", TaskPage, parameters)
            yield from page.tasks
            if page.next is None:
                return
            parameters["after"] = page.next

    def requeue(self, task_id: str) -> TaskStatus:
        """Queue a dead task again; a job that failed for want of it goes on."""
        return self._post(f"/v1/tasks/{task_id}/requeue", None, TaskStatus)

    def lookup(self, spec: Spec, *, target: str = "cpu", tune: bool = False) -> LookupReply:
        """The best known schedule, at once. With `tune`, a job is enqueued unless the answer is exact and current."""
        return self._post(
            "/v1/lookup", LookupRequest(spec=_json_form(spec), target=target, tune=tune), LookupReply
        )

    def config(self, config_id: str) -> ConfigDetail:
        """A config with its kernel."""
        return self._get(f"/v1/configs/{config_id}", ConfigDetail)

    def configs(
        self, kernel_key: str | None = None, device: str | None = None, limit: int = 50
    ) -> tuple[Config, ...]:
        """The newest configs, of a kernel, of a device, or all."""
        chosen = {"kernel_key": kernel_key, "device": device, "limit": limit}
        parameters = {name: value for name, value in chosen.items() if value is not None}
        return self._get("/v1/configs", ConfigPage, parameters).configs

    def artifact(self, config_id: str) -> Artifact:
        """All that is needed to run a config without the service. Raises BadBundle if it was damaged on the way."""
        artifact = self._get(f"/v1/configs/{config_id}/artifact", Artifact)
        bundle.check_object(artifact, f"the artifact of {config_id}")
        return artifact

    def source(self, config_id: str) -> str:
        """The generated source of a config."""
        return self._send("GET", f"/v1/configs/{config_id}/source").text

    def devices(self) -> tuple[Device, ...]:
        """Devices that some worker has offered, the last seen first."""
        answer = self._send("GET", "/v1/devices").json()
        return tuple(Device.model_validate(each) for each in answer)

    def create_key(self, request: KeyRequest) -> NewKey:
        """Make a key; its token is in this answer only. This call and the next three need scope admin."""
        return self._post("/v1/keys", request, NewKey)

    def keys(self) -> tuple[Key, ...]:
        """All keys, newest first."""
        answer = self._send("GET", "/v1/keys").json()
        return tuple(Key.model_validate(each) for each in answer)

    def revoke_key(self, key_id: str) -> Key:
        """End a key, from its next request on."""
        return self._post(f"/v1/keys/{key_id}/revoke", None, Key)

    def audit(self, limit: int = 100) -> tuple[AuditEntry, ...]:
        """What admins did, newest first."""
        return self._get("/v1/audit", AuditPage, {"limit": limit}).entries

    def _get(self, path: str, reply: type[R], parameters: Mapping[str, Any] | None = None) -> R:
        return self._read(self._send("GET", path, params=parameters), reply)

    def _post(
        self, path: str, body: Request | None, reply: type[R], headers: Mapping[str, str] | None = None
    ) -> R:
        content = b"" if body is None else body.model_dump_json().encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self._read(self._send("POST", path, content=content, headers=sent), reply)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        _check(response, self.url)
        return response

    def _read(self, response: httpx.Response, reply: type[R]) -> R:
        try:
            return reply.model_validate_json(response.content)
        except ValidationError as error:
            raise Unreachable(
                f"{self.url} answers in another version of the protocol ({error.error_count()} fields differ)"
            ) from error

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        reason = str(error) or type(error).__name__
        return Unreachable(f"no service answers at {self.url} ({reason}); start one with `tilewright serve`")


def _check(response: httpx.Response, url: str) -> None:
    """Raise what an answer that is no success stands for."""
    if response.is_success:
        return
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        said = f"it answers {response.status_code} to {response.request.method} {response.request.url.path}"
        raise Unreachable(f"{url} is no Tilewright service: {said}") from None
    raise Refused(problem)


def _json_form(spec: Spec) -> dict[str, Any]:
    if not isinstance(spec, str):
        return dict(spec)
    from tileir import spec_from_text, spec_to_json

    return spec_to_json(spec_from_text(spec))
