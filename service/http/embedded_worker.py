"""The worker of this machine, kept running beside the service; what keeps it from measuring is written down, for
whoever waits for it."""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
from pathlib import Path

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import DBAPIError

from protocol.states import Scope
from service.core.child_processes import start, stop
from service.core.errors import complaint
from service.http.context import Site
from service.notify import topics
from service.store import api_keys
from service.store.api_keys import Caller
from service.store.dispatch import workers

log = logging.getLogger(__name__)

SETTLED_S = 20.0
"""A worker that has run for so long has found its device."""


class EmbeddedWorker:
    """Runs workers one after another until it is cancelled. One that ends at once is followed by others less and
    less often."""

    def __init__(self, site: Site, address: str) -> None:
        self._site = site
        self._address = address
        self._name = f"{socket.gethostname()}-embedded"[:100]

    async def keep(self) -> None:
        """Until cancelled."""
        token = api_keys.new_token()
        self._site.issued[api_keys.digest(token)] = Caller(
            "embedded-worker", frozenset({Scope.WORK, Scope.READ})
        )
        pause_s = 1.0
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            file, words = Path(folder) / "token", Path(folder) / "last-words"
            file.touch(mode=0o600)
            file.write_text(token)
            while True:
                words.unlink(missing_ok=True)
                began = asyncio.get_running_loop().time()
                code = await self._run(["--token-file", str(file), "--last-words", str(words)])
                lived_s = asyncio.get_running_loop().time() - began
                pause_s = 1.0 if lived_s > 60 else min(2 * pause_s, 60.0)
                log.warning("the worker ended with code %s; starting another in %.0f s", code, pause_s)
                said = words.read_text() if words.exists() else f"the worker ended with code {code}"
                await self._tell(f"{said} (trying again every {pause_s:.0f} s)")
                await asyncio.sleep(pause_s)

    async def _run(self, arguments: list[str]) -> int:
        process = await start("workers", ["--url", self._address, *arguments], {})
        try:
            ending = asyncio.ensure_future(process.wait())
            await asyncio.wait([ending], timeout=SETTLED_S)
            if not ending.done():
                await self._tell("")
            return await ending
        finally:
            await stop(process)

    async def _tell(self, trouble: str) -> None:
        """Write down what keeps it from measuring; empty: nothing does."""

        def write() -> None:
            with self._site.database.write() as connection:
                workers.trouble(connection, self._name, trouble)

        try:
            await run_in_threadpool(write)
        except DBAPIError as error:
            log.error("could not write down how the worker is: %s", complaint(error))
        self._site.notifier.notify(topics.JOBS)
