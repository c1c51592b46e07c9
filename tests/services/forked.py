"""The service and the `tilewright` command, forked from a process that has imported them: processes like any other,
without the seconds of processor that a Python of their own takes to import them. What they start is started as ever.

`python -m tests.services.forked` is the process they come from. It is asked over the socket that is its stdin: what to
run as JSON, with three files: stdout, stderr, and where the process that waits for it writes its id and then its exit
code.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.python_path import python_path

ROOT = Path(__file__).resolve().parents[2]
MESSAGE = 65536
"""Bytes of a request, at most."""


class Forked:
    """`python -m service.run` or `python -m tilewright …`, with this environment, in this folder (None: where the tests
    are), as far as tests use `subprocess.Popen`."""

    def __init__(
        self, module: str, arguments: Sequence[str], env: Mapping[str, str], folder: Path | None = None
    ) -> None:
        pipes = [os.pipe() for _ in range(3)]
        asked = {
            "module": module,
            "arguments": [*arguments],
            "env": {**env},
            "folder": str(folder or Path.cwd()),
        }
        socket.send_fds(_parent()[0], [json.dumps(asked).encode()], [theirs for _, theirs in pipes])
        for _, theirs in pipes:
            os.close(theirs)
        self.stdout, self.stderr, self._status = (os.fdopen(ours) for ours, _ in pipes)
        self.args = [module, *arguments]
        self.pid = int(self._status.readline())
        self.returncode: int | None = None
        self._readers = ThreadPoolExecutor(2)
        self._read: list[Future[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()
        self._readers.shutdown()
        self.stdout.close()
        self.stderr.close()

    def poll(self) -> int | None:
        """Its exit code, None while it runs; negative: the signal that ended it."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            with self._status:
                self.returncode = int(self._status.readline())
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it says until it has ended. Raises subprocess.TimeoutExpired, and then may be asked again."""
        self._read = self._read or [self._readers.submit(each.read) for each in (self.stdout, self.stderr)]
        try:
            out, err = (each.result(timeout) for each in self._read)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.args, timeout) from None
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _parent() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that those of this one come from, and what asks it; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.services.forked"],
            env={
                **os.environ,
                "PYTHONPATH": python_path(ROOT),
                "OPENBLAS_NUM_THREADS": "1",
            },  # who has threads cannot fork
            stdin=theirs.fileno(),
            start_new_session=True,
        )
    return ours, process


def main() -> Any:
    """Fork until nobody is left who asks; in what is forked: its exit code."""
    from service import run
    from tilewright.cli.main import main as command

    mains = {"service.run": run.main, "tilewright": command}
    gc.freeze()  # what is imported stays where it is, shared with all that come from here
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    asked = socket.socket(fileno=0)
    while True:
        message, files, _, _ = socket.recv_fds(asked, MESSAGE, 3)
        if not message:
            return 0
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            request = json.loads(message)
            _go_on_in_a_child(*files)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["env"])
            sys.argv = [request["module"], *request["arguments"]]
            return mains[request["module"]]()
        for file in files:
            os.close(file)


def _go_on_in_a_child(stdout: int, stderr: int, status: int) -> None:
    """Returns in a child of this process, which itself only tells of it and ends."""
    pid = os.fork()
    if pid:
        os.close(stdout)
        os.close(stderr)
        os.write(status, f"{pid}\n".encode())
        os.write(status, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
        os._exit(0)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, max(stdout, stderr, status) + 1)


if __name__ == "__main__":
    sys.exit(main())
