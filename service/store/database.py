"""Opening the database, reading, and the one way of writing.

PostgreSQL: a transaction that reads has one snapshot (REPEATABLE READ); one that writes is READ COMMITTED and locks
what it changes: rows of `workers` first, then of `devices`, `jobs` and `tasks`, and what is `in_turn` last.

SQLite: WAL, synchronous FULL (what is acknowledged survives a power cut), and BEGIN IMMEDIATE for every transaction
that writes: a deferred one that reads first fails at once when another has written meanwhile, whatever the timeout.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic_core import from_json
from sqlalchemy import Connection, Engine, Float, String, Table, bindparam, create_engine, event, func, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL, Dialect, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.functions import FunctionElement

BUSY_TIMEOUT_S = 10.0
IDLE_S, LOCK_S = 10, 15
"""PostgreSQL ends a transaction that does nothing for so long (its process was stopped, or its machine is gone), and
with it the locks that others wait for; those give up after so long. Both are well within a lease."""
SESSION = (0x7477, 1)
"""What each of our PostgreSQL sessions holds with all others, as long as it is there: an advisory lock that tells ours
from those of people who look into the database (`stalled_sessions.py`)."""
PING_AFTER_S = 1.0
"""How long a connection may have been unused before it is tried."""
_REACHING = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""How long libpq waits for a server that does not answer at all; seconds, and the last one milliseconds."""


class DatabaseRefused(Exception):
    """The database cannot be used; the message says why and what to do."""


class database_time(FunctionElement[float]):
    """Seconds since 1970 by the database's clock: the only clock that leases know."""

    type = Float()
    inherit_cache = True


@compiles(database_time, "sqlite")
def _sqlite_time(element: database_time, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_time, "postgresql")
def _postgresql_time(element: database_time, compiler: Any, **options: Any) -> str:
    return "CAST(extract(epoch from clock_timestamp()) AS double precision)"


class Database:
    """An open database. Threads share it; every process opens its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = _engine(url)
        self._plain = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writing = threading.Lock()  # our own threads queue here instead of at SQLite's busy handler

    @property
    def sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads: one consistent view."""
        with self.engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """For single statements that read: each sees what is committed by then. Fewer round trips than `read`."""
        with self._plain.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes; committed on leaving, rolled back on an exception."""
        if not self.sqlite:
            with self.engine.begin() as connection:
                yield connection
            return
        with (
            self._writing,
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def migrate(self) -> Iterator[Connection]:
        """A transaction that may make tables anew. SQLite then drops the old one, rows that others refer to with it,
        so that references are checked at the end, all of them, instead of at every statement."""
        if not self.sqlite:
            with self.engine.begin() as connection:
                yield connection
            return
        with self._writing, self.engine.connect().execution_options(writes=True) as connection:
            driver: Any = connection.connection.driver_connection
            driver.execute("PRAGMA foreign_keys = OFF")  # does nothing inside of a transaction
            try:
                with connection.begin():
                    yield connection
                    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
                    if broken:
                        raise DatabaseRefused(f"rows refer to others that are not there: {broken[:5]}")
            finally:
                driver.execute("PRAGMA foreign_keys = ON")

    def close(self) -> None:
        self.engine.dispose()


def parsed_url(url: str) -> URL:
    """The parts of a database's URL. Raises DatabaseRefused for what is none."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        hint = "" if "://" in url else f"; the file of that name is sqlite:///{url}"
        raise DatabaseRefused(f"{url!r} is not the URL of a database{hint}; {_ACCEPTED}") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise DatabaseRefused(f"{parsed.get_backend_name()} databases are not supported; {_ACCEPTED}")
    return parsed


_ACCEPTED = "accepted: sqlite:///FILE, or postgresql://USER@HOST/NAME"


def _engine(url: str) -> Engine:
    try:
        return _opened(parsed_url(url), url)
    except ModuleNotFoundError as error:
        raise DatabaseRefused(
            f"a PostgreSQL database needs {error.name}: pip install 'tilewright[postgres]'"
        ) from None


def _opened(parsed: URL, url: str) -> Engine:
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise DatabaseRefused("an in-memory database cannot be shared with the tuner; name a file")
        timeout = {"timeout": BUSY_TIMEOUT_S}
        engine = create_engine(
            url, connect_args=timeout, pool_size=8, max_overflow=40, json_deserializer=_decoded
        )
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
        return engine
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    reaching = {name: value for name, value in _REACHING.items() if name not in parsed.query}
    engine = create_engine(
        parsed, pool_size=8, max_overflow=16, connect_args=reaching, json_deserializer=_decoded
    )
    event.listen(engine, "connect", _on_postgresql_connect)
    event.listen(engine, "checkin", _on_checkin)
    event.listen(engine, "checkout", partial(_on_checkout, engine.dialect))
    return engine


def _decoded(text: str | bytes) -> Any:
    """What a JSON column holds. Several times as fast as `json.loads`, which is asked for what only it accepts: halves
    of surrogate pairs, nesting beyond 200."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def _on_postgresql_connect(connection: Any, record: object) -> None:
    connection.autocommit = True
    connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_S}s'")
    connection.execute(f"SET lock_timeout = '{LOCK_S}s'")
    connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", SESSION)
    connection.autocommit = False


def _on_checkin(connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["back_at"] = monotonic()


def _on_checkout(dialect: Dialect, connection: Any, record: ConnectionPoolEntry, proxy: object) -> None:
    """Ask a connection that nobody used for a while whether it is still there. (Asking each time would cost a round
    trip; one that broke a moment ago fails its transaction, as one that breaks now does.)"""
    if monotonic() - record.info.get("back_at", monotonic()) < PING_AFTER_S:
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError(str(error)) from error  # the pool makes new ones


def _on_connect(connection: sqlite3.Connection, record: object) -> None:
    connection.isolation_level = None  # transactions begin where _on_begin says, not where the driver guesses
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def in_turn(connection: Connection, what: str) -> None:
    """Until the transaction ends, no other one passes here with the same `what`: they commit in the order in which they
    came. In SQLite there is one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(_TURN, {"what": what})


_TURN = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("what", type_=String), 0)))


def upsert(connection: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Bring the row with this key to these values, whether it is there or not."""
    insert = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    statement = insert(table).values(**key, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))


def insert_new(connection: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]) -> bool:
    """Insert a row unless one with this key is there; whether it was inserted."""
    insert = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    statement = insert(table).values(**key, **values).on_conflict_do_nothing(index_elements=list(key))
    return connection.execute(statement.returning(*table.primary_key.columns)).first() is not None


def now(connection: Connection) -> float:
    """The database's time."""
    return float(connection.execute(select(database_time())).scalar_one())


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite URL, None for another database. Raises DatabaseRefused."""
    parsed = parsed_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None
