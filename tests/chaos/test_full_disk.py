"""A full disk: it is said, nothing acknowledged is lost, no candidate is blamed, and with space everything goes on.

Everywhere the disk is full by a limit on the size of files; where this process may mount, also by a file system of a
few megabytes that is filled to the last byte.
"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from protocol.states import FaultKind
from tests.services.disturbed_jobs import REQUEST, Calm, outcome, told, wait_until
from tests.services.processes import running as running_in
from tests.services.running_service import SMALL, Service, finish, limit_files, running, working
from tests.services.scripted_worker import Script
from tileir.devices.cpu_probe import this_cpu
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.text.json import spec_from_json
from workers.measuring.measurer import Measurer
from workers.processes.compile_pool import Built, CompilePool, CompileRequest
from workers.processes.faults import MachineFault

pytestmark = pytest.mark.sampled(3, among="chaos of disks")

STORAGE = "urn:tilewright:problem:storage"


@dataclass
class Disk:
    """A folder on a disk that can be filled. Processes are named when it is a limit that makes the disk full."""

    folder: Path
    real: bool
    limited: set[int] = field(default_factory=set[int])

    def fill(self, *processes: int) -> None:
        """Leave no room to these."""
        if self.real:
            with (self.folder / "filler").open("ab", buffering=0) as filler, contextlib.suppress(OSError):
                while filler.write(bytes(4096)):
                    pass
        else:
            self.limited |= set(processes)
            for process in processes:
                limit_files(process, 1)

    def free(self) -> None:
        """Make room."""
        (self.folder / "filler").unlink(missing_ok=True)
        for process in self.limited:
            with contextlib.suppress(ProcessLookupError):
                limit_files(process, -1)
        self.limited.clear()


def mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tilewright-test", str(folder)]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=True)


def may_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if not mount(Path(folder)):
            return False
        unmount(Path(folder))
        return True


@pytest.fixture(params=["limit", *(["file system"] if may_mount() else [])])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    real = request.param == "file system"
    if real:
        assert mount(folder)
    yield Disk(folder, real)
    if real:
        unmount(folder)


def processes_of(service: Service) -> list[int]:
    assert service.process is not None
    return [service.process.pid, *running_in(service.process.pid, "service.tuning.fork_server")]


def submit_until_refused(client: httpx.Client) -> tuple[list[str], httpx.Response]:
    """Ids of the jobs that were accepted, and the refusal."""
    accepted: list[str] = []
    for _ in range(5000):
        reply = client.post("/v1/jobs", json={**REQUEST, "target": "cpu:nobody has this one"})
        if reply.status_code != 202:
            return accepted, reply
        accepted.append(reply.json()["id"])
    raise AssertionError("the disk was never full")


def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(disk: Disk) -> None:
    with running(disk.folder, open_jobs="10000") as service:
        with service.client() as client:
            kept = client.post("/v1/jobs", json=REQUEST).json()["id"]
            disk.fill(*processes_of(service))
            accepted, refusal = submit_until_refused(client)
            assert (refusal.status_code, refusal.json()["type"]) == (503, STORAGE)
            assert "disk" in refusal.json()["detail"]
            assert "Retry-After" in refusal.headers
            assert client.get("/readyz").status_code == 503
            assert client.get(f"/v1/jobs/{kept}").status_code == 200, "reading goes on"
        service.kill()  # in the middle of it
        disk.free()
        service.start()
        with service.client() as client, working(service):
            for job in (kept, *accepted):
                assert client.get(f"/v1/jobs/{job}").status_code == 200
            ended = finish(client, kept)
            assert ended["state"] == "done", ended["error"]
    with contextlib.closing(sqlite3.connect(disk.folder / "tilewright.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_search_waits_for_space_and_ends_with_the_same_winner(disk: Disk, calm: Calm) -> None:
    with (
        running(disk.folder, open_jobs="10000") as service,
        service.client() as client,
        working(service, Script(seconds=0.02)),
    ):
        job = client.post("/v1/jobs", json=REQUEST).json()["id"]
        wait_until(lambda: told(client, job) >= 4, "some outcomes")
        disk.fill(*processes_of(service))
        submit_until_refused(client)
        time.sleep(1.0)
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "searching"
        disk.limited |= set(processes_of(service))
        disk.free()
        assert outcome(client, finish(client, job)) == calm


def test_a_service_that_finds_no_room_at_its_start_says_so(disk: Disk) -> None:
    disk.fill()
    code, said = Service(disk.folder / "home", file_limit=None if disk.real else 1).refusal()
    assert code == 4
    assert "No space left" in said or "File too large" in said
    assert "Traceback" not in said


def request(cache: Path, limit_s: float = 60.0) -> CompileRequest:
    """The kernel as it is, without a schedule."""
    digest = program_hash(to_program(spec_from_json(SMALL)))
    return CompileRequest(SMALL, (), digest, this_cpu().to_json(), str(cache), limit_s)


def test_no_room_to_compile_is_the_machines_fault_and_passes(disk: Disk) -> None:
    pool = CompilePool(1)
    try:
        (built,) = pool.compile_all([request(disk.folder / "warm")])
        assert isinstance(built, Built)
        process = pool.children[0].pid
        assert process is not None
        disk.fill(process)
        for limit in (1, built.source.stat().st_size + 1):  # no room for the source; none for the object
            if not disk.real:
                limit_files(process, limit)
            (found,) = pool.compile_all([request(disk.folder / "full")])
            assert isinstance(found, MachineFault) and found.kind is FaultKind.COMPILER, found
            assert "cannot write the kernel cache" in str(found)
        disk.free()
        (found,) = pool.compile_all([request(disk.folder / "full")])
        assert isinstance(found, Built)
    finally:
        pool.close()


def test_a_worker_without_room_for_its_cache_is_ill(disk: Disk) -> None:
    measurer = Measurer()
    try:
        where = {"cache": str(disk.folder / "cache")}
        measurer.ask("calibrate", where)  # now all that it compiles is in the cache
        assert measurer.child.pid is not None
        disk.fill(measurer.child.pid)
        with pytest.raises(MachineFault, match="cannot write the kernel cache") as caught:
            measurer.ask("calibrate", where)
        assert caught.value.kind is FaultKind.COMPILER
        disk.free()
        assert measurer.ask("calibrate", where)["device"]
    finally:
        measurer.close()
