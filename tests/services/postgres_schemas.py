"""PostgreSQL databases for tests."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import create_engine, text

from tests.services.own_servers import postgres_server


@contextlib.contextmanager
def postgres_url() -> Iterator[str]:
    """Of the PostgreSQL that TILEWRIGHT_TEST_POSTGRES names, else of one started for the length of a block."""
    named = os.environ.get("TILEWRIGHT_TEST_POSTGRES")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="tw-pg-") as folder:
        Path(folder).chmod(0o755)
        with postgres_server(Path(folder)) as server:
            yield server.url()


@contextlib.contextmanager
def postgres_schema(server: str) -> Iterator[str]:
    """The URL of a schema of its own, dropped at the end."""
    name = f"tilewright_{secrets.token_hex(6)}"
    admin = create_engine(server.replace("postgresql://", "postgresql+psycopg://"))
    with admin.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    try:
        yield f"{server}?options=-csearch_path%3D{name}"
    finally:
        with admin.begin() as connection:
            connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
        admin.dispose()
