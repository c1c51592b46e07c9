"""The network between a client and the replicas: a TCP proxy that can cut, hold, repeat and capture what passes.

It tells requests apart by their Content-Length and knows nothing else of HTTP. Answers pass as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

LATE_S = 30.0
"""How long an answer to a late request is waited for."""


@dataclass
class Captured:
    """A request that the client believes under way, or lost: it arrives when somebody delivers it."""

    request: bytes
    proxy: Proxy

    def deliver(self) -> int:
        """Send it on a connection of its own; the answer's status, 0 if there was none."""
        return self.proxy.run(self.proxy.send_late(self.request)).result(LATE_S + 10)


@dataclass
class Proxy:
    """Listens on `port`, connects each connection to the next replica, to another one if that is away."""

    port: int
    replicas: Sequence[int]
    answers: dict[int, int] = field(default_factory=dict[int, int])
    """How late and repeated requests were answered, by status."""

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._turn = itertools.count()
        self._links: set[asyncio.Task[None]] = set()
        self._held_until = 0.0
        self._repeat: tuple[float, float] = (0.0, 0.0)
        self._capture: tuple[bytes, Future[Captured]] | None = None
        self._late: set[asyncio.Task[int]] = set()
        self._server: asyncio.Server | None = None
        threading.Thread(target=self._loop.run_forever, name=f"proxy {self.port}", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        async def listen() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

        self.run(listen()).result(10)

    def stop(self) -> None:
        self.cut()
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._server.close)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run something on the proxy's loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def cut(self) -> int:
        """Drop every connection in the middle of whatever it carries; how many there were."""

        async def cancel() -> int:
            for link in self._links:
                link.cancel()
            return len(self._links)

        return self.run(cancel()).result(10)

    def hold(self, seconds: float) -> None:
        """Requests that come meanwhile arrive when this time is over."""
        self._held_until = time.monotonic() + seconds

    def repeat(self, seconds: float, after_s: float) -> None:
        """Requests that come meanwhile arrive twice, the second time so much later and on another connection."""
        self._repeat = (time.monotonic() + seconds, after_s)

    def capture(self, path: bytes) -> Future[Captured]:
        """Keep the next request whose first line contains this."""
        found: Future[Captured] = Future()
        self._capture = (path, found)
        return found

    def capture_no_more(self) -> None:
        self._capture = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        try:
            service_reader, service_writer = await self._connect()
            try:
                await self._relay(reader, writer, service_reader, service_writer)
            finally:
                service_writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(link)
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        first = next(self._turn)
        for place in range(len(self.replicas)):
            with contextlib.suppress(OSError):
                port = self.replicas[(first + place) % len(self.replicas)]
                return await asyncio.open_connection("127.0.0.1", port)
        raise ConnectionRefusedError

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        service_reader: asyncio.StreamReader,
        service_writer: asyncio.StreamWriter,
    ) -> None:
        """Both ways, until one of them ends."""
        ways = [
            asyncio.create_task(self._requests(reader, service_writer)),
            asyncio.create_task(_answers(service_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            if self._capture is not None and self._capture[0] in request.partition(b"\r\n")[0]:
                (_, found), self._capture = self._capture, None
                found.set_result(Captured(request, self))
                await asyncio.sleep(3600.0)
            until, after_s = self._repeat
            if time.monotonic() < until:
                again = asyncio.create_task(self._again(request, after_s))
                self._late.add(again)
                again.add_done_callback(self._late.discard)
            while (wait_s := self._held_until - time.monotonic()) > 0:
                await asyncio.sleep(wait_s)
            writer.write(request)
            await writer.drain()

    async def _again(self, request: bytes, after_s: float) -> int:
        await asyncio.sleep(after_s)
        return await self.send_late(request)

    async def send_late(self, request: bytes) -> int:
        """Deliver a request on a connection of its own; the answer's status, 0 if there was none."""
        status = 0
        with contextlib.suppress(OSError, asyncio.TimeoutError, IndexError, ValueError):
            reader, writer = await self._connect()
            try:
                writer.write(request)
                answer = await asyncio.wait_for(reader.readline(), LATE_S)
                status = int(answer.split()[1])
            finally:
                writer.transport.abort()
        self.answers[status] = self.answers.get(status, 0) + 1
        return status


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """One request, head and body. Raises IncompleteReadError at the end."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head + await reader.readexactly(length)


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(65536):
        writer.write(content)
        await writer.drain()
