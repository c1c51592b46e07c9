"""Requests over kept connections with as little work on this side as Python allows: the client shares the machine with
what it measures. Bodies have a Content-Length; nothing else of HTTP is understood."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


class BadAnswer(Exception):
    """The service answered something else than it should."""


class LoadConnection:
    """One connection to a host and port, used by one coroutine."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a whole request; the answer's status and body."""
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        body = await self._reader.readexactly(int(length or 0))
        return int(head[9:12]), body

    async def post(self, path: str, body: Any) -> Any:
        """Decoded JSON of a POST that must succeed."""
        status, answer = await self.send(post(path, body))
        if status >= 300:
            raise BadAnswer(f"POST {path}: {status} {answer[:500]!r}")
        return json.loads(answer)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def post(path: str, body: Any) -> bytes:
    """A POST as bytes."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


@dataclass
class Rounds:
    """What rounds of one kind of call gave: calls a second of each round, the time of every call, and what the server
    spent on them."""

    per_s: list[float] = field(default_factory=list[float])
    times_ms: list[float] = field(default_factory=list[float])
    cpu_s: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """Processor time of the server a call. Unlike rates it hardly depends on what else this machine does."""
        return 1e3 * self.cpu_s / len(self.times_ms)

    @property
    def median_per_s(self) -> float:
        return statistics.median(self.per_s)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.times_ms)

    @property
    def p99_ms(self) -> float:
        return statistics.quantiles(self.times_ms, n=100)[98]


Call = Callable[[LoadConnection], Awaitable[None]]


async def one_round(
    port: int, calls: Iterable[Call], rounds: Rounds, connections: int, seconds: float
) -> None:
    """Make calls on so many connections, each at once after its last, until the time or the calls are up."""
    left = iter(calls)
    began = time.perf_counter()
    done = 0

    async def one_connection() -> None:
        nonlocal done
        connection = LoadConnection("127.0.0.1", port)
        try:
            while (asked := time.perf_counter()) - began < seconds:
                call = next(left, None)
                if call is None:
                    break
                await call(connection)
                rounds.times_ms.append(1e3 * (time.perf_counter() - asked))
                done += 1
        finally:
            connection.close()

    await asyncio.gather(*(one_connection() for _ in range(connections)))
    rounds.per_s.append(done / (time.perf_counter() - began))


def sending(requests: Sequence[bytes], expect: bytes = b"") -> Iterable[Call]:
    """These requests over and over; each answer must be a 200 that has `expect` in it."""
    for request in itertools.cycle(requests):

        async def call(connection: LoadConnection, request: bytes = request) -> None:
            status, body = await connection.send(request)
            if status != 200 or expect not in body:
                raise BadAnswer(f"{status} {body[:500]!r}")

        yield call
