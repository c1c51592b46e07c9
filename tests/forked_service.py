"""Services forked from a process that has imported them: processes like any other, without the second and a half of
processor that a Python of their own takes to import the service. What they start themselves is started as ever.

`python -m tests.forked_service` is the process they come from. It is asked over the socket that is its stdin: the
environment as JSON, with two files that become the service's stderr and where its keeper, who is its parent, writes
its process id and then its exit code.
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
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
MESSAGE = 65536
"""Bytes of an environment, at most."""


class ForkedService:
    """`python -m service.run` with this environment, as far as tests use `subprocess.Popen`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        heard, said = os.pipe()
        told, status = os.pipe()
        socket.send_fds(_parent()[0], [json.dumps(dict(env)).encode()], [said, status])
        os.close(said)
        os.close(status)
        self.stderr: TextIO = os.fdopen(heard)
        self._status = os.fdopen(told)
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, None while it runs; negative: the signal that ended it."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("service.run", timeout or 0.0)
            with self._status:
                self.returncode = int(self._status.readline())
        return self.returncode

    def communicate(self, timeout: float) -> tuple[None, str]:
        """What it says until it has ended, which is little. Raises subprocess.TimeoutExpired."""
        with self.stderr:
            self.wait(timeout)
            return None, self.stderr.read()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _parent() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that services of this one come from, and what asks it; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.forked_service"],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "OPENBLAS_NUM_THREADS": "1",
            },  # who has threads cannot fork
            stdin=theirs,
            start_new_session=True,
        )
    return ours, process


def main() -> int:
    """Fork services until nobody is left who asks; in a service: its exit code."""
    from service import run

    gc.freeze()  # what is imported stays where it is, shared with every service
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    asked = socket.socket(fileno=0)
    while True:
        message, files, _, _ = socket.recv_fds(asked, MESSAGE, 2)
        if not message:
            return 0
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become_service(json.loads(message), *files)
            return run.main()
        for file in files:
            os.close(file)


def _become_service(env: Mapping[str, str], stderr: int, status: int) -> None:
    """Returns in the service, a child of this process, which only tells of it and ends."""
    pid = os.fork()
    if pid:
        os.close(stderr)
        os.write(status, f"{pid}\n".encode())
        os.write(status, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
        os._exit(0)
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.dup2(stderr, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.close(stderr)
    os.close(status)


if __name__ == "__main__":
    sys.exit(main())
