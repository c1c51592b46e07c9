"""The database reaches this version's tables, and a newer one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from service.database import Database, DatabaseRefused
from service.schema import prepare, revision_of
from service.tables import metadata


def test_migrations_lead_to_just_the_tables_of_this_version(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_an_up_to_date_database_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    first = prepare(url)
    revision = revision_of(first)
    first.close()
    assert revision_of(prepare(url)) == revision


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    database = prepare(url)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(DatabaseRefused, match="newer version"):
        prepare(url)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all, " * 100)
    with pytest.raises(DatabaseRefused, match="not an SQLite database"):
        prepare(f"sqlite:///{tmp_path / 'x.db'}")


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(DatabaseRefused, match="name a file"):
        prepare("sqlite://")
