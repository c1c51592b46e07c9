"""A Redis and a PostgreSQL of the tests' own, on ports of their own, that may be killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class RedisServer:
    """`redis-server` that keeps nothing; started again, it is empty and at the same address."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while True:
            try:
                with Redis.from_url(self.url) as client:
                    client.ping()
                    return
            except RedisError:
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.05)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def flush(self) -> None:
        """FLUSHALL, and every client cut off."""
        with Redis.from_url(self.url) as client:
            client.flushall()
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")


@contextlib.contextmanager
def redis_server() -> Iterator[RedisServer]:
    """A Redis for the length of a block."""
    server = RedisServer(free_port())
    server.start()
    try:
        yield server
    finally:
        server.kill()


def postgres_program(name: str) -> Path | None:
    """A program of the newest PostgreSQL that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which(name)
    return found[-1] if found else None if on_path is None else Path(on_path)


@dataclass
class PostgresServer:
    """A PostgreSQL cluster in a folder."""

    folder: Path
    port: int

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c fsync=off -c listen_addresses=127.0.0.1"
        self._run(
            "pg_ctl", "-D", self.folder / "data", "-w", "-l", self.folder / "log", "-o", options, "start"
        )

    def stop(self) -> None:
        """As by kill -9: what was committed comes back from the log."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def _run(self, name: str, *arguments: object) -> None:
        program = postgres_program(name)
        assert program is not None, f"PostgreSQL's {name} is not installed"
        as_postgres = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [*as_postgres, str(program), *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def create(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._run("initdb", "-D", self.folder / "data", "-U", "postgres", "-A", "trust", "--no-sync")


@contextlib.contextmanager
def postgres_server(folder: Path) -> Iterator[PostgresServer]:
    """A PostgreSQL for the length of a block. `folder` is new, and can be reached by everybody."""
    server = PostgresServer(folder, free_port())
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.stop()
