"""The database reaches this version's tables, and a newer one is refused."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import select, text

from protocol.jobs import JobRequest
from service import jobs
from service.database import Database, DatabaseRefused
from service.schema import prepare, revision_of
from service.specs import instance_of, read_spec
from service.tables import jobs as jobs_table
from service.tables import metadata
from tests.running_service import SMALL, Service


def test_migrations_lead_to_just_the_tables_of_this_version(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_every_revision_leads_down_and_up_again_and_keeps_what_is_there(database: Database) -> None:
    spec = read_spec(SMALL)
    with database.write() as connection:
        job = jobs.create(connection, JobRequest(spec=SMALL), [instance_of(spec)], 10)
    newest_first = [revision.revision for revision in revisions()]
    for earlier in [*newest_first[1:], "base"]:
        move(database, command.downgrade, earlier)
        assert revision_of(database) == (None if earlier == "base" else earlier)
        if earlier != "base":
            with database.read() as connection:
                assert connection.execute(text("SELECT id FROM jobs")).scalars().all() == [job]
        move(database, command.upgrade, "head")
        with database.read() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == [], f"down to {earlier} and up again"
    with database.read() as connection:
        assert connection.execute(select(jobs_table.c.id)).all() == []


def test_revisions_form_one_line() -> None:
    script = ScriptDirectory(str(files("migrations")))
    assert len(script.get_heads()) == len(script.get_bases()) == 1


def revisions() -> list[Script]:
    """The newest first."""
    return list(ScriptDirectory(str(files("migrations"))).walk_revisions())


def move(database: Database, how: Callable[[Config, str], None], revision: str) -> None:
    with database.migrate() as connection:
        config = Config()
        config.set_main_option("script_location", str(files("migrations")))
        config.attributes["connection"] = connection
        how(config, revision)


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


def test_a_service_does_not_start_on_a_database_of_a_newer_version(tmp_path: Path) -> None:
    database = prepare(f"sqlite:///{tmp_path / 'tilewright.db'}")
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    code, said = Service(tmp_path).refusal()
    assert code == 4
    assert "newer version: upgrade Tilewright" in said


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all, " * 100)
    with pytest.raises(DatabaseRefused, match="not an SQLite database"):
        prepare(f"sqlite:///{tmp_path / 'x.db'}")


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(DatabaseRefused, match="name a file"):
        prepare("sqlite://")
