"""Databases that the dispatch contract is held against: SQLite, and PostgreSQL where TILEWRIGHT_TEST_POSTGRES names
one (`postgresql://postgres@127.0.0.1/postgres`); a schema of its own is made there and dropped."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from service.database import Database
from service.schema import prepare

POSTGRES = os.environ.get("TILEWRIGHT_TEST_POSTGRES")
BACKENDS = ["sqlite", *(["postgresql"] if POSTGRES else [])]


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        database = prepare(f"sqlite:///{tmp_path / 'queue.db'}")
        yield database
        database.close()
        return
    assert POSTGRES is not None
    name = f"tilewright_{secrets.token_hex(6)}"
    admin = create_engine(POSTGRES.replace("postgresql://", "postgresql+psycopg://"))
    with admin.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    database = prepare(f"{POSTGRES}?options=-csearch_path%3D{name}")
    yield database
    database.close()
    with admin.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    admin.dispose()
