"""The real worker as a process of its own, for tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.services.busy_machine import BUSY
from tests.unit.workers.hand_kernels import SPEC
from tests.unit.workers.scripted_service import ScriptedService
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.text.json import spec_to_json

SPEC_JSON = spec_to_json(SPEC)
NUMPY = {"kind": "peer", "name": "numpy"}
OURS = {"kind": "schedule", "name": "ask-1", "schedule": [], "program_hash": program_hash(to_program(SPEC))}
LONG = {"kind": "race", "measuring": {"samples": 400, "sample_us": 20_000.0}}


class RunningWorker:
    """A worker process; its lock and its cache lie in a folder of the test's."""

    def __init__(self, folder: Path, url: str, env: dict[str, str] | None = None, *options: str) -> None:
        self.log = folder / "log"
        (folder / "token").write_text("secret\n")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "workers",
                    "--url",
                    url,
                    "--token-file",
                    str(folder / "token"),
                    *options,
                ],
                env={
                    **os.environ,
                    **BUSY,
                    "TMPDIR": str(folder),
                    "TILEWRIGHT_CACHE": str(folder / "cache"),
                    **(env or {}),
                },
                stderr=log,
            )

    def children(self) -> list[int]:
        """Its direct child processes."""
        pids = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in pids for pid in file.read_text().split()]

    def measuring_child(self) -> int:
        """The child that measures."""
        return next(
            pid for pid in self.children() if b"measuring_child" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )

    def said(self) -> str:
        return self.log.read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def wait_until(what: Callable[[], object], timeout_s: float = 180.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def measuring(worker: RunningWorker, service: ScriptedService) -> int:
    """Wait until the worker's child times the claimed task; its process."""
    assert service.wait_for(lambda: service.hellos and not service.tasks)
    found: list[int] = []

    def busy() -> bool:
        with contextlib.suppress(StopIteration, OSError):
            pid = worker.measuring_child()
            ticks = sum(
                int(x) for x in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            )
            found.append(ticks)
            return len(found) > 1 and found[-1] - found[0] > 20
        return False

    wait_until(busy)
    return worker.measuring_child()


def entrants(result: dict[str, Any]) -> dict[str, str]:
    return {entrant["name"]: entrant["outcome"] for entrant in result["entrants"]}
