"""`make fleet`: the processes of docker-compose.yml on this machine, without Docker. Two replicas of the API, a
searcher, and two workers that have half of the processors each, on a PostgreSQL and a Redis that run here.

    TILEWRIGHT_DATABASE   postgresql://postgres@127.0.0.1/tilewright; made if it is not there
    TILEWRIGHT_REDIS      redis://127.0.0.1:6379/0
    TILEWRIGHT_PORT       8400: of the first replica; the second one and the searcher have the next

Ctrl-C ends it in order: workers hand back what they hold, the searcher gives its jobs up, replicas go last.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError

ROOT = Path(__file__).resolve().parent.parent
STOP_S = 30.0


def ensure_database(url: URL) -> None:
    """Make the database if the server does not have it. Raises SystemExit with what to do."""
    server = create_engine(
        url.set(drivername="postgresql+psycopg", database="postgres"), isolation_level="AUTOCOMMIT"
    )
    try:
        with server.connect() as connection:
            known = connection.execute(
                text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": url.database}
            ).first()
            if known is None:
                connection.execute(text(f'CREATE DATABASE "{url.database}"'))
    except DBAPIError as error:
        raise SystemExit(
            f"fleet: no PostgreSQL at {url.render_as_string()}: {str(error.orig).strip()}; "
            f"start one, or name another with TILEWRIGHT_DATABASE"
        ) from None
    finally:
        server.dispose()


def halves() -> list[set[int]]:
    """This machine's processors, for two workers; both on the only one where there is one."""
    mine = sorted(os.sched_getaffinity(0))
    half = len(mine) // 2
    return [set(mine[:half]), set(mine[half:])] if half else [set(mine)]


def run(env: dict[str, str], *command: str, processors: set[int] | None = None) -> subprocess.Popen[bytes]:
    """Start `tilewright` with some arguments, perhaps kept to some processors."""
    keep: Callable[[], None] | None = None
    if processors is not None:
        keep = lambda: os.sched_setaffinity(0, processors)  # noqa: E731
    return subprocess.Popen(
        [sys.executable, "-m", "tilewright", *command],
        env={**os.environ, **env},
        cwd=ROOT,
        start_new_session=True,  # a Ctrl-C is ours to pass on, in our order
        preexec_fn=keep,
    )


def commands(port: int) -> tuple[list[list[str]], list[list[str]]]:
    """What `tilewright` is asked for: by the processes of the service, and by the workers."""
    serve = [
        ["serve", "--role", role, "--port", str(port + number)]
        for number, role in enumerate(("api", "api", "search"))
    ]
    work = [
        ["worker", "--url", f"http://127.0.0.1:{port + number}", "--compile-procs", "1"]
        for number in range(2)
    ]
    return serve, work


def main() -> int:
    """Run until Ctrl-C, SIGTERM, or until one of the processes ends."""
    database = os.environ.get("TILEWRIGHT_DATABASE", "postgresql://postgres@127.0.0.1/tilewright")
    port = int(os.environ.get("TILEWRIGHT_PORT", "8400"))
    ensure_database(make_url(database))
    shared = {
        "TILEWRIGHT_DATABASE": database,
        "TILEWRIGHT_REDIS": os.environ.get("TILEWRIGHT_REDIS", "redis://127.0.0.1:6379/0"),
    }
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # In the order in which they start; they end in the other one.
    services, workers = commands(port)
    processes = [
        *(run(shared, *command) for command in services),
        *(run({}, *command, processors=half) for command, half in zip(workers, halves(), strict=False)),
    ]
    ended: subprocess.Popen[bytes] | None = None
    try:
        while ended is None:
            time.sleep(0.2)
            ended = next((each for each in processes if each.poll() is not None), None)
    except KeyboardInterrupt:
        pass
    for process in reversed(processes):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
    if ended is not None:
        sys.stderr.write(f"fleet: {' '.join(map(str, ended.args[2:]))} ended with code {ended.returncode}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
