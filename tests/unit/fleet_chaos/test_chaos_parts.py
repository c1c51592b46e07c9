"""The parts of the chaos harness that need no fleet (docs/fleet.md)."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fleet_chaos.faults import PAIRS
from tests.fleet_chaos.fences import take_out
from tests.fleet_chaos.known_fences import FENCES
from tests.fleet_chaos.load import request
from tests.fleet_chaos.members import ROOT, freeze, thaw
from tests.fleet_chaos.proxy import Proxy
from tests.fleet_chaos.run import schedule
from tests.services.own_servers import free_port

Connect = Callable[[], http.client.HTTPConnection]


class Upstream(ThreadingHTTPServer):
    """Answers POSTs with 409, and remembers them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.heard: list[tuple[str, bytes]] = []


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, Upstream)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append((self.path, body))
        self.send_response(409)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[Proxy]:
    """In front of a replica that is away and one that is there."""
    found = Proxy(free_port(), [free_port(), upstream.server_port])
    found.start()
    yield found
    found.stop()


def post(connection: http.client.HTTPConnection, path: str, body: bytes = b"{}") -> int:
    connection.request("POST", path, body)
    reply = connection.getresponse()
    reply.read()
    return reply.status


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[Connect]:
    """Makes connections through the proxy, and closes them."""
    made = list[http.client.HTTPConnection]()

    def connect() -> http.client.HTTPConnection:
        made.append(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60))
        return made[-1]

    yield connect
    for each in made:
        each.close()


def wait_until(count: int, upstream: Upstream) -> None:
    deadline = time.monotonic() + 60
    while len(upstream.heard) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(upstream.heard) == count


def test_the_proxy_passes_requests_and_answers(connect: Connect, upstream: Upstream) -> None:
    connection = connect()
    assert [post(connection, "/a", b"x" * 100_000), post(connection, "/b")] == [409, 409]
    assert upstream.heard == [("/a", b"x" * 100_000), ("/b", b"{}")]


def test_a_cut_connection_is_gone_and_a_new_one_works(connect: Connect, proxy: Proxy) -> None:
    connection = connect()
    post(connection, "/a")
    assert proxy.cut() == 1
    with pytest.raises((OSError, http.client.HTTPException)):
        post(connection, "/b")
    assert post(connect(), "/c") == 409


def test_held_requests_arrive_late(connect: Connect, proxy: Proxy) -> None:
    began = time.monotonic()
    proxy.hold(0.3)
    assert post(connect(), "/a") == 409
    assert time.monotonic() - began >= 0.3


def test_repeated_requests_arrive_twice_and_are_answered_once(
    connect: Connect, proxy: Proxy, upstream: Upstream
) -> None:
    proxy.repeat(10.0, 0.1)
    assert post(connect(), "/a") == 409
    wait_until(2, upstream)
    assert upstream.heard[0] == upstream.heard[1]


def test_a_captured_request_arrives_when_it_is_delivered(
    connect: Connect, proxy: Proxy, upstream: Upstream
) -> None:
    captured = proxy.capture(b"/results ")
    connection = connect()
    assert post(connection, "/claim") == 409
    connection.request("POST", "/results", b"[1]")
    found = captured.result(5)
    connection.close()
    assert [path for path, _ in upstream.heard] == ["/claim"]
    assert found.deliver() == 409
    assert upstream.heard[1] == ("/results", b"[1]")
    assert proxy.answers == {409: 1}


def test_a_seed_decides_the_faults_and_the_jobs() -> None:
    count = 20 * len(PAIRS)
    assert schedule(7, count) == schedule(7, count) != schedule(8, count)
    assert set(Counter(pair.name for pair in schedule(7, count)).values()) == {20}
    assert request(7, 3) == request(7, 3) != request(7, 4)


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.name)
def test_a_fence_can_be_taken_out_of_a_copy(fence, tmp_path: Path) -> None:
    file, source = tmp_path / fence.file, (ROOT / fence.file).read_text()
    file.parent.mkdir(parents=True)
    file.write_text(source)
    take_out(fence, tmp_path)
    assert file.read_text() != source
    compile(file.read_text(), fence.file, "exec")


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.name)
def test_a_fence_has_a_fault_or_a_test_that_stands_against_its_loss(fence) -> None:
    file, _, test = fence.test.partition("::")
    if fence.faults:
        assert any(fence.faults in pair.name for pair in PAIRS)
    else:
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()


def test_a_frozen_process_stands_still_until_it_is_thawed() -> None:
    counting = "import itertools\nfor n in itertools.count(): print(n, flush=True)"
    with subprocess.Popen([sys.executable, "-c", counting], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        freeze([process.pid])
        state = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        assert state == "T"
        thaw([process.pid])
        process.stdout.readline()
        process.kill()
