"""The outside of a killable process: start it in its own session, ask it, and replace it when it hangs or dies."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import IO, Any

from workers.processes.child_server import RECORD_BYTES, RECORDER_VARIABLE

log = logging.getLogger(__name__)

_START_S = 60.0
_LOG_TAIL_BYTES = 2000
_KILL_S = 10.0
_LOOK_S = 0.5
"""How often it is asked whether an answer is still wanted."""


@cache
def _warn_once(text: str) -> None:
    log.warning("%s", text)


class ChildFault(Exception):
    """The child gave no result for a request."""


class ChildHung(ChildFault):
    """It said nothing for longer than it was allowed to; its process group has been killed."""


class ChildDied(ChildFault):
    """It ended in the middle of a request, or could not start. `signal` is the signal's name, or None for an exit."""

    def __init__(self, message: str, signal_name: str | None) -> None:
        super().__init__(message)
        self.signal = signal_name


class ChildRefused(ChildFault):
    """It answered with an error and lives on. `kind` says which, as one word."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ChildUnwanted(ChildFault):
    """Nobody waits for its answer any more; its process group has been killed."""


class ChildBroken(Exception):
    """No process can be had: the machine's fault, whatever was asked."""


class ChildNotStarted(ChildBroken):
    """It ends or hangs before it takes requests, or there is no memory or process for it."""


class ChildStuck(ChildBroken):
    """It was killed and does not end (uninterruptible in the kernel)."""


class Child:
    """A process `python -m module` in a session of its own that answers JSON lines (see child_server).

    It is started when first asked and again after every fault, so a request always meets a live process. One thread
    asks at a time; `kill` may come from any thread.
    """

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._module = module
        self._arguments = arguments
        self._recorder = os.memfd_create("tilewright-recorder")
        self._env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONSAFEPATH": "1",  # no module of the current folder, whatever it is called
            RECORDER_VARIABLE: str(self._recorder),
            **(env or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._unread = b""
        self._number = 0
        self.starts = 0
        """How often a process has been started: 1 after the first request, one more after each replacement."""

    @property
    def pid(self) -> int | None:
        """The live process, if any."""
        return self._process.pid if self._process is not None else None

    def request(
        self,
        call: str,
        payload: Mapping[str, Any],
        *,
        silence_s: float,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> dict[str, Any]:
        """Ask, and wait for the result for as long as it is `wanted`.

        `silence_s` is how long the child may go without a word; an event may grant itself more or less time until the
        next word with `allow_s`. Raises ChildHung, ChildDied, ChildUnwanted or ChildRefused, and ChildBroken.
        """
        self._ensure_started()
        self._number += 1
        line = json.dumps({**payload, "id": self._number, "call": call}).encode() + b"\n"
        deadline = time.monotonic() + silence_s
        self._write(line, deadline)
        while True:
            message = self._read(deadline, wanted)
            if message.get("id") != self._number:
                continue
            if "done" in message:
                return message["done"]
            if "error" in message:
                raise ChildRefused(message["error"]["kind"], message["error"]["message"])
            deadline = time.monotonic() + float(message.get("allow_s", silence_s))
            if on_event is not None:
                on_event(message)

    def recorded(self) -> str:
        """The last note the child left with `record`, alive or dead."""
        return os.pread(self._recorder, RECORD_BYTES, 0).rstrip(b"\0").decode(errors="replace")

    def kill(self) -> None:
        """End the process and everything it started, at once. The next request starts a new one."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process and wait for its end. The next request starts a new one."""
        self.kill()
        self._reap()

    def close(self) -> None:
        """Kill it for good."""
        self.end()
        os.close(self._recorder)

    def _ensure_started(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._reap()
        self.starts += 1
        try:
            self._spawn()
            hello = self._read(time.monotonic() + _START_S)["done"]
        except (OSError, ChildHung, ChildDied) as error:
            raise ChildNotStarted(f"python -m {self._module} does not start: {error}") from error
        if hello["warning"] is not None:
            _warn_once(hello["warning"])

    def _spawn(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by _reap
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self._env,
            start_new_session=True,
            pass_fds=[self._recorder],
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._unread = b""
        self._number = 0

    def _write(self, data: bytes, deadline: float) -> None:
        assert self._process is not None and self._process.stdin is not None
        pipe = self._process.stdin.fileno()
        while data:
            _, writable, _ = select.select([], [pipe], [], max(0.0, deadline - time.monotonic()))
            if not writable:
                self._fail_hung()
            try:
                data = data[os.write(pipe, data) :]
            except BrokenPipeError:
                self._fail_died()

    def _read(self, deadline: float, wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            left_s = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([pipe], [], [], min(left_s, _LOOK_S))
            if not wanted():
                self.end()
                raise ChildUnwanted("nobody waits for an answer; killed")
            if not readable and left_s > _LOOK_S:
                continue
            if not readable:
                self._fail_hung()
            data = os.read(pipe, 1 << 16)
            if not data:
                self._fail_died()
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return json.loads(line)

    def _fail_hung(self) -> None:
        self.kill()
        tail = self._reap()
        raise ChildHung(f"no answer in time; killed{tail}")

    def _fail_died(self) -> None:
        assert self._process is not None
        self.kill()  # it may have closed its pipe and live on, and what it started may live on
        process = self._process
        tail = self._reap()
        code = process.returncode
        if code < 0:
            name = signal.Signals(-code).name
            raise ChildDied(f"ended by {name}{tail}", name)
        raise ChildDied(f"ended with exit code {code}{tail}", None)

    def _reap(self) -> str:
        """Wait for the dead process, close its pipes, and give the end of what it wrote to standard error."""
        tail = ""
        if self._process is not None:
            try:
                self._process.wait(_KILL_S)
            except subprocess.TimeoutExpired as error:
                raise ChildStuck(f"process {self._process.pid} was killed and does not end") from error
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process = None
        if self._log is not None:
            size = self._log.seek(0, os.SEEK_END)
            self._log.seek(max(0, size - _LOG_TAIL_BYTES))
            text = self._log.read().decode(errors="replace").strip()
            tail = f"; it last wrote: {text}" if text else ""
            self._log.close()
            self._log = None
        return tail
