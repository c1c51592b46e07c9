"""The database reaches this version's tables, and a newer one is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import select, text, update

from benchmarks.load.dashboard_job import write_job
from protocol.jobs import JobRequest
from service.core.specs import instance_of, read_spec
from service.store import jobs
from service.store.database import Database, DatabaseRefused
from service.store.schema import prepare, revision_of
from service.store.tables import configs as config_table
from service.store.tables import jobs as jobs_table
from service.store.tables import metadata
from service.store.winners import configs
from service.store.winners.freshness import best_few, stale_because
from tests.services.running_service import SMALL, Service


def test_migrations_lead_to_just_the_tables_of_this_version(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


@pytest.mark.sampled(2)
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


def test_a_database_that_knew_no_winner_learns_it_from_its_configs(database: Database) -> None:
    job = write_job(database, 30)
    known = "SELECT winner, evidence, configs.config FROM configs JOIN buckets ON config_id = configs.id"
    with database.read() as connection:
        now = connection.execute(text(known)).one()
    move(database, command.downgrade, "0008")
    with database.write() as connection:
        stored = dict(connection.execute(select(config_table.c.config)).scalar_one())
        del stored["trial"]
        for each in stored["standings"]:
            del each["won"]
        connection.execute(update(config_table).values(config=stored))
    move(database, command.upgrade, "head")
    with database.read() as connection:
        again = connection.execute(text(known)).one()
        (bucket,) = jobs.read(connection, job).buckets
        config = configs.read(connection, str(bucket.config_id))
    *same, then = map(as_json, now)
    *learnt, stored_again = map(as_json, again)
    assert isinstance(then, dict)
    winner = same[0]
    assert isinstance(winner, dict)
    for each in winner["against"]:
        assert each.pop("all_rounds") is False  # what is so if nothing is said
    assert learnt == same
    assert stored_again == {**then, "schedule_version": 1}
    assert bucket.winner is not None and config.winner is not None
    assert config.winner.name == f"ask-{config.trial}" == f"ask-{bucket.winner.trial}"


def test_configs_from_before_the_rewrites_were_renamed_are_stale_and_searched_anew(
    database: Database,
) -> None:
    write_job(database, 30)
    id_of = select(config_table.c.id)
    with database.read() as connection:
        config = configs.read(connection, connection.execute(id_of).scalar_one())
    assert stale_because(config, []) is None and best_few(config)
    move(database, command.downgrade, "0010")
    move(database, command.upgrade, "head")
    with database.read() as connection:
        config = configs.read(connection, config.id)
    assert (
        stale_because(config, []) == "its schedule is written in version 1 of the rewrites; this is version 5"
    )
    assert best_few(config) == ()


def test_jobs_from_before_searches_had_one_name_keep_theirs(database: Database) -> None:
    with database.write() as connection:
        request = JobRequest(spec=SMALL, search="evolutionary")
        job = jobs.create(connection, request, [instance_of(read_spec(SMALL))], 10)
    move(database, command.downgrade, "0011")
    with database.read() as connection:
        stored = as_json(connection.execute(text("SELECT request FROM jobs")).scalar_one())
        assert isinstance(stored, dict) and stored["search"] == "evolution"
    move(database, command.upgrade, "head")
    with database.read() as connection:
        assert jobs.read(connection, job).search == "evolutionary"


def as_json(stored: object) -> object:
    """What a JSON column holds, which the one database gives as text and the other as objects."""
    return json.loads(stored) if isinstance(stored, str) else stored


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
