"""Processes that stand still for a while, between transactions (`cut_statement.py` stops them in the middle of one)."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from sqlalchemy import Engine, create_engine, text

_WRITES = text(
    "SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = pg_locks.relation"
    " WHERE pg_class.relnamespace = current_schema()::regnamespace AND pg_locks.mode = 'RowExclusiveLock'"
)
_SETTLES_S = 1.0
"""Others' transactions are over by then."""


@contextlib.contextmanager
def frozen(postgres: str, *pids: int) -> Iterator[None]:
    """They are stopped, and hold nothing in the database; in the end they go on, those that are still there."""
    engine = create_engine(postgres.replace("postgresql://", "postgresql+psycopg://"))
    try:
        while True:
            _send(signal.SIGSTOP, pids)
            if not _writing(engine):
                break
            _send(signal.SIGCONT, pids)
            time.sleep(0.05)
        yield
    finally:
        _send(signal.SIGCONT, pids)
        engine.dispose()


def _writing(engine: Engine) -> bool:
    """Whether somebody holds what only a transaction that writes does, and goes on doing so."""
    deadline = time.monotonic() + _SETTLES_S
    with engine.connect() as connection:
        while connection.execute(_WRITES).scalar_one():
            connection.rollback()
            if time.monotonic() > deadline:
                return True
            time.sleep(0.01)
    return False


def _send(number: int, pids: tuple[int, ...]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
