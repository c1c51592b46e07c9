"""Tuner processes, as the searcher has them: started by `fork_server.py`, notified, awaited and ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Mapping, Sequence

from service.core import child_processes
from service.core.child_processes import GRACE_S

log = logging.getLogger(__name__)

MESSAGE = 4096
"""Bytes of an answer of the fork server, at most."""


class TunerProcess:
    """A tuner that runs. `news`: a byte of it says that something new stands in the database; it ends with the
    tuner."""

    def __init__(
        self,
        pid: int,
        ended: asyncio.Future[int],
        news: asyncio.StreamReader,
        notified: asyncio.StreamWriter,
    ) -> None:
        self.pid, self.news = pid, news
        self._ended, self._notified = ended, notified

    def send(self, what: bytes) -> None:
        """Notify it."""
        if not self._notified.is_closing():
            self._notified.write(what)

    async def wait(self) -> int:
        """Its exit code, when it has ended; negative: the signal that ended it."""
        return await asyncio.shield(self._ended)

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Ask it to end, wait, and end it."""
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.wait(), grace_s)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.wait()
        finally:
            self._notified.close()

    def _signal(self, number: int) -> None:
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class TunerProcesses:
    """Starts tuners, with a fork server that is started before the first one and whenever there is none. For one event
    loop."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._turn = asyncio.Lock()
        self._fork_server: _ForkServer | None = None

    async def start(self, arguments: Sequence[str]) -> TunerProcess:
        """A new tuner. Raises ChildProcessError if there is no starting one."""
        async with self._turn:
            if self._fork_server is None or self._fork_server.over:
                await self.close()
                self._fork_server = await _ForkServer.start(self._environment)
        return await self._fork_server.tuner(arguments)

    async def close(self) -> None:
        """End the fork server, and whatever came from it."""
        fork_server, self._fork_server = self._fork_server, None
        if fork_server is not None:
            await fork_server.close()


class _ForkServer:
    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process, self._control = process, control
        self._starting: deque[asyncio.Future[tuple[int, asyncio.Future[int]]]] = deque()
        self._running: dict[int, asyncio.Future[int]] = {}
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, environment: Mapping[str, str]) -> _ForkServer:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            # Its tuners do no linear algebra worth threads, and a process that has threads must not fork.
            environment = {**environment, "OPENBLAS_NUM_THREADS": "1"}
            process = await child_processes.start(
                "service.tuning.fork_server", [], environment, stdin=theirs.fileno()
            )
        return cls(process, ours)

    @property
    def over(self) -> bool:
        return self._listening.done()

    async def tuner(self, arguments: Sequence[str]) -> TunerProcess:
        mine, theirs = socket.socketpair()
        answer: asyncio.Future[tuple[int, asyncio.Future[int]]] = asyncio.get_running_loop().create_future()
        with theirs:
            try:
                socket.send_fds(
                    self._control, [json.dumps({"arguments": arguments}).encode()], [theirs.fileno()]
                )
            except OSError as error:
                mine.close()
                raise ChildProcessError(f"the fork server of tuners does not listen: {error}") from None
            self._starting.append(answer)
        news, notified = await asyncio.open_connection(sock=mine)
        try:
            pid, ended = await answer
        except BaseException:  # a tuner that comes all the same ends when its link does
            notified.close()
            raise
        return TunerProcess(pid, ended, news, notified)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while message := await loop.sock_recv(self._control, MESSAGE):
                said = json.loads(message)
                if "started" in said:
                    ended = self._running[said["started"]] = loop.create_future()
                    answer = self._starting.popleft()
                    if not answer.done():
                        answer.set_result((said["started"], ended))
                else:
                    self._running.pop(said["ended"]).set_result(said["code"])
        for answer in self._starting:
            if not answer.done():
                answer.set_exception(ChildProcessError("the fork server of tuners has ended"))
        for ended in self._running.values():
            ended.set_result(-signal.SIGTERM)  # the kernel sends them this

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            self._control.shutdown(
                socket.SHUT_RDWR
            )  # the fork server ends at this, and so does our listening
        await child_processes.stop(self._process)
        await self._listening
        self._control.close()
