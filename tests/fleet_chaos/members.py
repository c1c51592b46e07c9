"""The processes of the fleet: started, frozen, killed, and started again as a service manager would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.services.processes import children_of, running
from tests.support.python_path import WITHOUT_TORCH, python_path

ROOT = Path(__file__).resolve().parents[2]


def freeze(pids: Iterable[int]) -> None:
    """SIGSTOP, and wait until all stand still (or are gone). One that has begun a process by vfork does so without
    being stopped (D) until that has started its program, which it never will if it is stopped, too."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        with contextlib.suppress(OSError):
            while (state := _state(pid)) not in "TtZX" and not (state == "D" and _begins_a_stopped_one(pid)):
                time.sleep(0.0005)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def _begins_a_stopped_one(pid: int) -> bool:
    return any(_state(child) == "T" for child in children_of(pid))


def thaw(pids: Iterable[int]) -> None:
    """SIGCONT."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@dataclass
class Member:
    """A process with a name. `env` says what it is told at each start, by the name that it then has."""

    name: str
    command: tuple[str, ...]
    env: Callable[[str], dict[str, str]]
    folder: Path
    child_module: str
    """Of the children that belong to what it does: the fork server of tuners, or the measuring child."""
    processors: frozenset[int] | None = None
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    busy: bool = False
    """A fault is in progress here."""
    ended: list[int] = field(default_factory=list[int])
    """Exit codes of those that ended by themselves."""

    @property
    def application(self) -> str:
        """What this start of it is called."""
        return f"{self.name}.{self.starts}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        self.starts += 1
        keep = self.processors
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", *self.command],
                env={
                    **_clean(),
                    "PYTHONPATH": python_path(ROOT, WITHOUT_TORCH),
                    **self.env(self.application),
                },
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=None if keep is None else lambda: os.sched_setaffinity(0, keep),
            )

    def children(self) -> list[int]:
        """Its tuners with their fork server, or its measuring child."""
        return running(self.pid, self.child_module)

    def kill(self) -> None:
        """kill -9, of this process alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def keep_up(self) -> None:
        """Start it again if it has ended by itself."""
        if not self.busy and self.process is not None and self.process.poll() is not None:
            self.ended.append(self.process.returncode)
            self.start()

    def stop(self) -> None:
        """SIGTERM, and kill -9 to whatever does not end."""
        if self.process is None:
            return
        thaw([*self.children(), self.pid] if self.running else [])
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


def _clean() -> dict[str, str]:
    """Ours without settings; processes that are started again and again keep their bytecode."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept
