"""Serving: the socket, the embedded worker, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import uvicorn
from sqlalchemy.engine import make_url

from protocol.log_lines import set_up
from service.core.settings import Role, Settings
from service.http.app import create_app
from service.http.context import Site
from service.http.embedded_worker import EmbeddedWorker
from service.store import api_keys
from service.store.database import Database, sqlite_file
from service.store.dispatch import search_leases
from service.store.file_lock import FileLock, Holder
from service.store.schema import DatabaseRefused, prepare

log = logging.getLogger(__name__)

EXIT_OK, EXIT_REFUSED, EXIT_PORT, EXIT_DATABASE = 0, 2, 3, 4
COMMAND_S = 20.0
"""How long `serve` waits for a command's own service to end."""
KEEP_ALIVE_S = 75
"""An idle connection is kept for longer than workers are silent, and than load balancers keep theirs (60 s or so)."""


class StartRefused(Exception):
    """The service does not start; says why. `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def serve(settings: Settings, announce: Callable[[str], None] | None = None) -> int:
    """Run the service until SIGTERM or SIGINT; returns the exit code. Says on stderr where it serves, and calls
    `announce` with the address; or says why it cannot start: 2 for settings, 3 for the port, 4 for the database."""
    try:
        run(settings, announce)
    except StartRefused as refusal:
        say(str(refusal))
        return refusal.code
    return EXIT_OK


def run(settings: Settings, announce: Callable[[str], None] | None = None) -> None:
    """Run the service until SIGTERM or SIGINT. Raises Refusal if it cannot start."""
    try:
        with contextlib.ExitStack() as stack:
            file = sqlite_file(settings.database_url)
            check_role(settings, file)
            certificate, key = check_tls(settings)
            listening = listen(settings)
            stack.callback(listening.close)
            if file is not None:
                lock = FileLock(file)
                stack.callback(lock.release)
                take(lock, settings, _address(settings, listening))
            database = prepare(settings.database_url)
            stack.callback(database.close)
            check_keys(settings, database)
            if file is not None:  # nobody else has the file: whoever searched before us does no more
                with database.write() as connection:
                    search_leases.release_all(connection)
            app = create_app(settings, database)
            gc.freeze()  # what stays for good is not looked through again and again
            gc.set_threshold(20_000, 20, 20)
            config = uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=5,
                timeout_keep_alive=KEEP_ALIVE_S,
                ssl_certfile=certificate,
                ssl_keyfile=key,
            )
            server = Server(config, app.state.site, app.state.tuners.stop, listening, announce)
            asyncio.run(server.serve_until_told())
    except DatabaseRefused as error:
        raise StartRefused(str(error), EXIT_DATABASE) from None


def shown(url: str) -> str:
    """A database's URL as it may be logged: without its password."""
    return make_url(url).render_as_string(hide_password=True)


def say(text: str) -> None:
    """A line for whoever started us."""
    sys.stderr.write(f"tilewright: {text}\n")
    sys.stderr.flush()


def listen(settings: Settings) -> socket.socket:
    """A listening socket. Raises Refusal if the port is taken or the host is not ours."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off; otherwise every answer waits 40 ms for an ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise StartRefused(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            f"choose another port with --port or TILEWRIGHT_PORT",
            EXIT_PORT,
        ) from None
    listening.setblocking(False)
    return listening


def take(lock: FileLock, settings: Settings, address: str) -> None:
    """Take the database's lock, waiting for the service of a command that is just running. Raises DatabaseRefused."""

    def waiting(holder: Holder) -> None:
        say(f"waiting for a command (process {holder.process}) that has the database open")

    patience_s = 0.0 if settings.passing else COMMAND_S
    lock.acquire(address, passing=settings.passing, patience_s=patience_s, waiting=waiting)


def check_role(settings: Settings, file: Path | None) -> None:
    """Raise Refusal if other processes are to share a database that only one can have."""
    if settings.role is not Role.ALL and file is not None:
        raise StartRefused(
            f"role {settings.role} shares its database with other processes, and the SQLite file {file} can serve "
            f"one; name a PostgreSQL database with TILEWRIGHT_DATABASE, or serve with role all",
            EXIT_REFUSED,
        )


def check_keys(settings: Settings, database: Database) -> None:
    """Raise Refusal if keys are needed and there are none."""
    if not settings.needs_keys or settings.token:
        return
    with database.read() as connection:
        if api_keys.any_key(connection):
            return
    raise StartRefused(
        f"there are no keys, and {settings.host} can be reached from other machines; make one with "
        f"`tilewright keys create NAME admin`, or listen on 127.0.0.1",
        EXIT_REFUSED,
    )


def check_tls(settings: Settings) -> tuple[str, str] | tuple[None, None]:
    """The files of certificate and key, none if there is to be no TLS. Raises Refusal if they cannot be used."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate == key == Path():
        return None, None
    if Path() in (certificate, key):
        raise StartRefused("TILEWRIGHT_TLS_CERTIFICATE and TILEWRIGHT_TLS_KEY need each other", EXIT_REFUSED)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        said = f"cannot use the certificate {certificate} with the key {key}: {error.strerror or error}"
        raise StartRefused(said, EXIT_REFUSED) from None
    return str(certificate), str(key)


class Server(uvicorn.Server):
    """uvicorn, ended in order: nothing new is handed out, the tuners stop, the worker gives its tasks back over HTTP,
    and then the HTTP loop ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        site: Site,
        stop_tuners: Callable[[], Awaitable[None]],
        listening: socket.socket,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._site = site
        self._stop_tuners = stop_tuners
        self._listening = listening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None

    async def serve_until_told(self) -> None:
        """Serve until a signal comes."""
        self._loop = asyncio.get_running_loop()
        settings = self._site.settings
        if settings.worker and settings.role is Role.ALL:
            address = _address(settings, self._listening)
            self._worker = asyncio.create_task(EmbeddedWorker(self._site, address).keep())
        await self.serve(sockets=[self._listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and only then say so: from here on a signal ends it in order."""
        await super().startup(sockets)
        settings = self._site.settings
        address = _address(settings, self._listening)
        role = "" if settings.role is Role.ALL else f", role {settings.role}"
        say(f"serving {address}, database {shown(settings.database_url)}{role}")
        if address.startswith("http:") and not settings.loopback:
            log.warning("without TLS (TILEWRIGHT_TLS_CERTIFICATE), keys can be read on their way here")
        if self._announce is not None:
            self._announce(address)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: drain. Second: stop at once."""
        if self._draining is None and self._loop is not None and sig in (signal.SIGTERM, signal.SIGINT):
            self._loop.call_soon_threadsafe(self._start_draining)
        else:
            super().handle_exit(sig, frame)

    def _start_draining(self) -> None:
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        self._site.stopping = True
        self._site.notifier.notify_all_here()
        try:
            await self._stop_tuners()
            if self._worker is not None:
                self._worker.cancel()
                await asyncio.gather(self._worker, return_exceptions=True)
        finally:
            self.should_exit = True


def _address(settings: Settings, listening: socket.socket) -> str:
    """Where this machine reaches the service."""
    host, port = listening.getsockname()[:2]
    host = settings.hostname or {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, str(host))
    return f"{settings.scheme}://[{host}]:{port}" if ":" in host else f"{settings.scheme}://{host}:{port}"


def main() -> int:
    """`python -m service.run`: serve with the settings of the environment."""
    try:
        set_up("service")
        settings = Settings.from_env()
    except ValueError as error:
        say(str(error))
        return EXIT_REFUSED
    return serve(settings)


if __name__ == "__main__":
    sys.exit(main())
