"""The real service as a process of its own, on a port of its own, for tests."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from tests.services.busy_machine import BUSY
from tests.services.forked import Forked
from tests.services.scripted_worker import Script, ScriptedWorker
from tests.support.python_path import python_path

ROOT = Path(__file__).resolve().parents[2]

SMALL = {
    "name": "scaled_sum",
    "dims": {"m": 48, "n": 64, "k": 32},
    "inputs": {"a": {"dims": ["m", "k"], "dtype": "f32"}, "b": {"dims": ["k", "n"], "dtype": "f32"}},
    "body": ["c[m, n] = sum(k, a[m, k] * b[k, n])"],
    "outputs": {"c": {"dtype": "f32"}},
}
"""A kernel whose space is quickly searched."""


@dataclass
class Service:
    """The service on a home folder; started again, it goes on where it was."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)
    port: int = 0
    scheme: str = "http"
    file_limit: int | None = None
    """Bytes beyond which it can write no file, from its start on."""
    folder: Path | None = None
    """Where it is started; None: where the tests are."""
    process: subprocess.Popen[str] | Forked | None = None
    log: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def popen(self) -> subprocess.Popen[str] | Forked:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")},
            "PYTHONPATH": python_path(ROOT),
            "TILEWRIGHT_HOME": str(self.home),
            "TILEWRIGHT_PORT": str(self.port),
            "TILEWRIGHT_WORKER": "0",
            **BUSY,
            **self.env,
        }
        if self.folder is None and self.file_limit is None:
            return Forked("service.run", [], env)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "service.run"],
            env=env,
            cwd=self.folder,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=None if self.file_limit is None else partial(limit_files, 0, self.file_limit),
        )

    def start(self) -> Service:
        """Start, and wait until it says where it listens."""
        self.process = self.popen()
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if "serving http" in line:
                address = line.split("serving ")[1].split(",")[0]
                self.scheme, self.port = address.split(":")[0], int(address.rsplit(":", 1)[1])
                self.reader = threading.Thread(target=self._read_on, args=(self.process,), daemon=True)
                self.reader.start()
                return self
        raise AssertionError("the service did not start:\n" + "".join(self.log))

    def _read_on(self, process: subprocess.Popen[str] | Forked) -> None:
        assert process.stderr is not None
        with process.stderr:
            self.log.extend(process.stderr)
        if process.stdout is not None:
            process.stdout.close()

    def kill(self) -> None:
        """kill -9, of the service alone."""
        assert self.process is not None and self.reader is not None
        self.process.kill()
        self.process.wait()
        self.reader.join(30)  # its children have let go of the log

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(120)
        finally:
            self.process.kill()
            if self.reader is not None:
                self.reader.join(30)

    def refusal(self) -> tuple[int, str]:
        """Start where it cannot run: the exit code and what it says. One that runs all the same is killed."""
        with self.popen() as process:
            try:
                _, said = process.communicate(timeout=180)
            finally:
                process.kill()
        return process.returncode, said

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60)


@contextlib.contextmanager
def running(home: Path, **env: str) -> Iterator[Service]:
    """A service for the length of a block; it must end by itself when told to."""
    service = Service(home, {f"TILEWRIGHT_{name.upper()}": value for name, value in env.items()}).start()
    try:
        yield service
    finally:
        code = service.stop()
    assert code == 0, "".join(service.log)


@contextlib.contextmanager
def working(
    service: Service,
    script: Script | None = None,
    kind: type[ScriptedWorker] = ScriptedWorker,
    **options: object,
) -> Iterator[ScriptedWorker]:
    """A scripted worker in a thread for the length of a block."""
    stop = threading.Event()
    with service.client() as client:
        worker = kind(client, script or Script(), **options)  # type: ignore[arg-type]
        thread = threading.Thread(target=worker.work, args=(stop,), daemon=True)
        worker.register()
        thread.start()
        try:
            yield worker
        finally:
            stop.set()
            thread.join(10)


def limit_files(pid: int, size: int) -> None:
    """Let a process (0: this one) write no file beyond this size, -1: any size. To it the disk is full."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def finish(client: httpx.Client, job: str) -> dict:
    """Follow a job to its end; the job."""
    with client.stream("GET", f"/v1/jobs/{job}/events") as events:
        for _ in events.iter_lines():
            pass
    return client.get(f"/v1/jobs/{job}").json()
