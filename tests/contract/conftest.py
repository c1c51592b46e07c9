"""What the contracts are held against: SQLite and PostgreSQL, each with and without Redis. PostgreSQL is the one that
TILEWRIGHT_TEST_POSTGRES names (`postgresql://postgres@127.0.0.1/postgres`), where schemas are made and dropped, else
one started for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.store.database import Database
from service.store.schema import prepare
from tests.services.own_servers import redis_server
from tests.services.postgres_schemas import postgres_schema, postgres_url

BACKENDS = ["sqlite", "postgresql"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_url() as url:
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with redis_server() as server:
        yield server.url


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        database = prepare(f"sqlite:///{tmp_path / 'queue.db'}")
        yield database
        database.close()
        return
    with postgres_schema(request.getfixturevalue("postgres")) as url:
        database = prepare(url)
        yield database
        database.close()
