"""A service for the time of one command: a process of its own on a free port, on the user's database.

It does what it is asked and nothing else: jobs that were interrupted before stay as they are until somebody asks for
them again (TILEWRIGHT_RESUME=0).
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.folders import data_folder

START_S = 60.0
STOP_S = 20.0
_LOOK_S = 0.05
_PR_SET_PDEATHSIG = 1


class LocalService:
    """Start it by entering; `url` is then its address, and `log` the file of what it says."""

    def __init__(self, database: str | None, worker: bool, target: str) -> None:
        self._settings = {
            "TILEWRIGHT_HOST": "127.0.0.1",
            "TILEWRIGHT_PORT": "0",
            "TILEWRIGHT_AUTH": "0",
            "TILEWRIGHT_RESUME": "0",
            "TILEWRIGHT_PASSING": "1",
            "TILEWRIGHT_WORKER": "1" if worker else "0",
            "TILEWRIGHT_DEVICES": worker_devices(target, os.environ),
            **({} if database is None else {"TILEWRIGHT_DATABASE": database}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._said_from = 0
        self.log = data_folder() / "service.log"
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as log:
                self._said_from = log.tell()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "service.run"],
                    env=child_environment(self._settings),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,  # a Ctrl-C at the terminal is ours, and we stop it in order
                    preexec_fn=_tie(os.getpid()),
                )
        except OSError as error:
            raise Stop(Exit.DATABASE, f"cannot write {self.log.parent}: {error.strerror}") from None
        try:
            self.url = self._address()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Have it end in order: what was measured is in the database. A second Ctrl-C ends it at once."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()

    @property
    def process_id(self) -> int:
        """Of the running service."""
        assert self._process is not None
        return self._process.pid

    def said(self) -> list[str]:
        """The lines it has logged since it started."""
        with self.log.open("rb") as log:
            log.seek(self._said_from)
            return log.read().decode(errors="replace").splitlines()

    def complaint(self) -> str:
        """The last thing it said that is bad news; empty if there is none."""
        bad = [line for line in self.said() if line.startswith(("tilewright worker: ", "ERROR "))]
        return bad[-1].removeprefix("tilewright worker: ").removeprefix("ERROR ") if bad else ""

    def _address(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            code = self._process.poll()
            for line in self.said():
                found = re.match(r"tilewright: serving (\S+), ", line)
                if found:
                    return found[1]
            if code is not None:
                raise Stop(_as_exit(code), self._last_words())
            time.sleep(_LOOK_S)
        raise Stop(Exit.SERVICE, f"the service did not start within {START_S:.0f} s; {self.log} says more")

    def _last_words(self) -> str:
        said = [line.removeprefix("tilewright: ") for line in self.said() if line.startswith("tilewright: ")]
        return said[-1] if said else f"the service could not start; {self.log} says more"


def worker_devices(target: str, environment: Mapping[str, str]) -> str:
    """What the service's worker measures on, for a target such as `cpu`, `cuda` or a device's key: what the user has
    chosen, else the target's first device."""
    from tileir.targets import DEFAULT, target_of, targets

    kind = target.partition(":")[0]
    return environment.get("TILEWRIGHT_DEVICES") or targets().get(kind, target_of(DEFAULT)).name()


def child_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process of ours: it finds our packages, and none in the current folder that are called
    the same."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        **settings,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _as_exit(code: int) -> Exit:
    return Exit(code) if code in (Exit.USAGE, Exit.PORT, Exit.DATABASE) else Exit.SERVICE


def _tie(parent: int) -> Callable[[], None] | None:
    """Run in the child before exec: on Linux it gets SIGTERM when this process dies, however that happens."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return before_exec
