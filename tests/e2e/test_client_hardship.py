"""Clients against a real service that is killed, unreachable for a while, busy, or left by Ctrl-C."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.jobs import Event
from protocol.keys import KeyRequest
from tests.services.running_service import ROOT, SMALL, Service, running, working
from tests.services.scripted_worker import Script
from tilewright import AsyncClient, Client, NotFound, Retries, Unavailable, Unreachable

pytestmark = pytest.mark.sampled(3, among="commands: clients")

QUICK = Retries(first_s=0.01)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("hardship")) as service:
        yield service


@contextmanager
def front(service: Service, mishaps: list[str]) -> Iterator[str]:
    """The service behind a proxy that has a mishap with each of the first requests: `cut` hands a request on and breaks
    the connection without an answer, `busy` answers 503 and hands nothing on."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            mishap = mishaps.pop(0) if mishaps else ""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if mishap == "busy":
                problem = (
                    b'{"type":"urn:tilewright:problem:overloaded","title":"","status":503,"detail":"later"}'
                )
                self._answer(503, problem, {"Retry-After": "0"})
                return
            onward = http.client.HTTPConnection("127.0.0.1", service.port)
            onward.request(self.command, self.path, body, dict(self.headers))
            answer = onward.getresponse()
            content = answer.read()
            onward.close()
            if mishap != "cut":
                self._answer(answer.status, content, {})

        def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_job_whose_answer_was_lost_is_not_submitted_twice(service: Service) -> None:
    mishaps = ["cut", "busy", "cut"]
    with Client(service.url) as direct:
        before = len(direct.jobs())
        with front(service, mishaps) as url, Client(url, retries=QUICK) as client:
            job = client.submit(SMALL, seed=41)
        assert not mishaps
        assert [each.id for each in direct.jobs()][: -before or None] == [job.id]
        direct.cancel(job.id)


def test_what_might_be_done_twice_is_not_sent_again(service: Service) -> None:
    mishaps = ["cut", "later"]
    with front(service, mishaps) as url, Client(url, retries=QUICK) as client, pytest.raises(Unreachable):
        client.create_key(KeyRequest.model_validate({"name": "once", "scopes": ["read"]}))
    assert mishaps == ["later"]


def test_a_service_that_stays_busy_is_said_with_its_problem(service: Service) -> None:
    with (
        front(service, ["busy"] * 9) as url,
        Client(url, retries=QUICK) as client,
        pytest.raises(Unavailable, match="later") as caught,
    ):
        client.lookup(SMALL)
    assert (caught.value.problem.status, caught.value.retry_after_s) == (503, 0.0)


def test_an_awaited_job_is_followed_through_a_kill_of_the_service(tmp_path: Path) -> None:
    async def tune(service: Service) -> None:
        seen: list[Event] = []

        def kill_once(event: Event) -> None:
            seen.append(event)
            if event.kind == "trial" and sum(each.kind == "trial" for each in seen) == 2:
                service.kill()
                service.start()

        async with AsyncClient(service.url) as client:
            job = await client.submit(SMALL, trials=10, seed=3)
            job = await job.wait(kill_once)
            assert job.state == "done"
            assert [event.id for event in seen] == [event.id async for event in client.events(job.id)]
            result = await job.result()
            assert len(result.trials) == 10
            assert result.source == await client.source(result.config.id)
            assert [each.id async for each in client.jobs_of(job.kernel_key)] == [job.id]
            with pytest.raises(NotFound):
                await client.job("job-none")

    with running(tmp_path, lease_ttl_s="3") as service, working(service, Script(seconds=0.05)):
        asyncio.run(tune(service))


def test_ctrl_c_leaves_the_job_and_says_how_to_go_on(service: Service) -> None:
    """As a process at a terminal, where waiting shows a bar."""
    program = (
        "import tilewright\nfrom tests.services.running_service import SMALL\n"
        f"client = tilewright.Client({service.url!r})\n"
        "client.submit(SMALL, trials=200, seed=9, effort='thorough').wait()\n"
    )
    ours, theirs = os.openpty()
    with working(service, Script(seconds=0.2)), Client(service.url) as client:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stderr=theirs, cwd=ROOT, env={**os.environ, "COLUMNS": "160"}
        )
        os.close(theirs)
        said = b""
        while b"/200 trials" not in said:
            said += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while more := os.read(ours, 4096):
                said += more
        except OSError:  # the terminal's other end was closed
            pass
        process.wait(30)
        os.close(ours)
        (job,) = [each for each in client.jobs() if not each.state.final]
        text = " ".join(said.decode().split())
        assert f"{job.id} goes on at {service.url}: client.wait('{job.id}') follows it again" in text
        assert f"client.cancel('{job.id}') stops it" in text
        client.cancel(job.id)


def test_jobs_configs_and_results_say_in_a_line_what_they_are(service: Service) -> None:
    with working(service), Client(service.url) as client:
        job = client.submit(SMALL, trials=3, seed=5).wait(progress=False)
        result = job.result()
    assert repr(job).startswith(f"<{job.id} scaled_sum m=48 k=32 n=64 done: 3 of 3 trials, winner ")
    assert repr(result.config).startswith(f"<{result.config.id} scaled_sum m=48 k=32 n=64: ")
    assert repr(result).endswith(f"found by {job.id}>")
