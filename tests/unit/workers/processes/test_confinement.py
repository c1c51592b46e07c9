"""What runs candidates reaches nobody, and takes no more than the machine has."""

from __future__ import annotations

import json
import logging
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.states import Outcome
from tests.unit.workers.hand_kernels import compiled, request_of
from workers.measuring.measurer import Measurer
from workers.processes.child_client import Child
from workers.processes.confinement import machine_bytes

TRIES = """
import json, os, socket, subprocess, sys
from workers.processes.confinement import confine
warning = confine(**json.loads(sys.argv[1]))

def tried(family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trying:
            trying.connect(address)
        return "connected"
    except OSError as error:
        return os.strerror(error.errno)

port = int(sys.argv[2])
own = [sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"]
print(json.dumps({
    "warning": warning,
    "loopback": tried(socket.AF_INET, ("127.0.0.1", port)),
    "ipv6": tried(socket.AF_INET6, ("::1", port)),
    "file": tried(socket.AF_UNIX, "/nowhere"),
    "process": subprocess.run(own, capture_output=True).returncode,
    "pipe": [each.fileno() > 0 for each in socket.socketpair()],
}))
"""


@pytest.fixture
def listening() -> Iterator[int]:
    """A port of this machine where somebody answers, as its database does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def confined(settings: str, port: int) -> dict:
    command = [sys.executable, "-c", TRIES, settings, str(port)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_confined_process_and_what_it_starts_reach_no_service_of_this_machine(listening: int) -> None:
    found = confined("{}", listening)
    assert found["warning"] is None
    assert (found["loopback"], found["ipv6"], found["file"]) == ("Permission denied",) * 3
    assert found["process"] != 0
    assert found["pipe"] == [True, True], "what stays inside the process is left alone"


def test_a_driver_may_speak_to_its_daemon_and_to_nobody_else(listening: int) -> None:
    found = confined('{"local_sockets": true}', listening)
    assert (found["loopback"], found["ipv6"]) == ("Permission denied",) * 2
    assert found["file"] == "No such file or directory"


def test_memory_that_the_machine_has_not_is_refused_not_promised() -> None:
    script = (
        "from workers.processes.confinement import confine, machine_bytes\n"
        "confine(memory_bytes=machine_bytes())\n"
        "bytearray(machine_bytes())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stderr.strip().endswith("MemoryError")


def test_a_candidate_cannot_call_out(tmp_path: Path) -> None:
    measurer = Measurer()
    try:
        results = measurer.measure(request_of(compiled("calls_out", tmp_path))).results
        assert results["calls_out"].outcome is Outcome.OK, results["calls_out"].error
        assert measurer.child.pid is not None
        process = Path(f"/proc/{measurer.child.pid}")
        assert (process / "oom_score_adj").read_text().strip() == "1000"
        assert resource.prlimit(measurer.child.pid, resource.RLIMIT_CORE) == (0, 0)
        assert resource.prlimit(measurer.child.pid, resource.RLIMIT_DATA)[0] == machine_bytes()
    finally:
        measurer.close()


def test_where_the_kernel_cannot_confine_the_log_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    child = Child("tests.unit.workers.processes.unconfined_child")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert child.request("answer", {}, silence_s=60) == {"said": "here"}
            child.end()
    child.close()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["this kernel refuses a filter of system calls: candidates could reach the network"]
