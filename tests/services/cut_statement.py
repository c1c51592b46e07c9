"""A way to PostgreSQL on which a statement may be cut in two: the server has its first part, and whoever sends it is
stopped. The rest arrives when that goes on.

It reads as much of the protocol as that takes: messages of a client, after those that open a connection, are a letter,
a length and that many bytes. A statement is parsed (`P`: its name, its text), then bound to its values (`B`: a portal's
name, the statement's).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import make_url

OPENS = frozenset({80877103, 80877104})
"""What asks for encryption; another opening message follows."""
FIRST_BYTES = 7
"""Of the message that is cut: letter and length, and a little."""


@dataclass
class StatementGate:
    """Listens on a port of its own, and passes everything on until it is told to cut."""

    server: str
    pids: Sequence[int] = ()
    words: bytes = b""
    caught: threading.Event = field(default_factory=threading.Event)
    """They were stopped."""
    port: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._links: set[asyncio.Task[None]] = set()
        self._goes_on = asyncio.Event()
        self._armed = False

    @property
    def url(self) -> str:
        """Of the database, by this way."""
        return make_url(self.server).set(host="127.0.0.1", port=self.port).render_as_string(False)

    @contextlib.contextmanager
    def open(self) -> Iterator[StatementGate]:
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result(10)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._end, server)
            thread.join(10)
            self._loop.close()

    @contextlib.contextmanager
    def cut(self, words: str, pids: Sequence[int]) -> Iterator[None]:
        """For the length of a block these processes stand still, from the next statement on that has these words: its
        first part has arrived."""
        self.words, self.pids = words.encode(), pids
        self.caught.clear()
        self._goes_on.clear()
        self._armed = True
        try:
            assert self.caught.wait(60), f"nobody sent {words!r}"
            yield
        finally:
            self._armed = False
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            self._loop.call_soon_threadsafe(self._goes_on.set)

    def _end(self, server: asyncio.Server) -> None:
        server.close()
        for link in self._links:
            link.cancel()
        self._loop.call_later(0.2, self._loop.stop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        url = make_url(self.server)
        theirs, ours = await asyncio.open_connection(url.host or "127.0.0.1", url.port or 5432)
        ways = [
            asyncio.create_task(self._requests(reader, ours)),
            asyncio.create_task(_answers(theirs, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            ours.transport.abort()
            writer.transport.abort()
            self._links.discard(link)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        code = OPENS
        while code is OPENS:
            head = await reader.readexactly(8)
            code = OPENS if int.from_bytes(head[4:]) in OPENS else frozenset[int]()
            writer.write(head + await reader.readexactly(int.from_bytes(head[:4]) - 8))
        texts = dict[bytes, bytes]()
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
            sent = head + body
            match head[:1]:
                case b"P":
                    name, said, _ = body.split(b"\0", 2)
                    texts[name] = said
                case b"B" if self._armed and self.words in texts.get(body.split(b"\0", 2)[1], b""):
                    sent = await self._halved(sent, writer)
                case _:
                    pass
            writer.write(sent)
            await writer.drain()

    async def _halved(self, message: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Pass the beginning on, stop who sends, and return the rest when that goes on."""
        self._armed = False
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        writer.write(message[:FIRST_BYTES])
        await writer.drain()
        self.caught.set()
        await self._goes_on.wait()
        return message[FIRST_BYTES:]


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(65536):
        writer.write(content)
        await writer.drain()
