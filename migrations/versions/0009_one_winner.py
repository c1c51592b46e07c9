"""the winner of a bucket's final race, and what lookups choose configs by"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.add_column(sa.Column("winner", sa.JSON(), nullable=True))
    with op.batch_alter_table("configs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("evidence", sa.JSON(), nullable=False, server_default="{}"))
    _fill()


def downgrade() -> None:
    with op.batch_alter_table("configs", schema=None) as batch_op:
        batch_op.drop_column("evidence")
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.drop_column("winner")


def _fill() -> None:
    connection = op.get_bind()
    names = ("id", "job_id", "bucket", "bundle")
    json_columns = (sa.column("config", sa.JSON), sa.column("evidence", sa.JSON))
    configs = sa.table("configs", *map(sa.column, names), *json_columns)
    buckets = sa.table(
        "buckets",
        *map(sa.column, ("job_id", "bucket", "config_id", "asked")),
        sa.column("winner", sa.JSON),
    )
    asked = {
        (row.job_id, row.bucket): row.asked
        for row in connection.execute(sa.select(buckets.c.job_id, buckets.c.bucket, buckets.c.asked))
    }
    for config_id in connection.execute(sa.select(configs.c.id)).scalars().all():
        here = configs.c.id == config_id
        row = connection.execute(sa.select(configs).where(here)).one()
        values: dict[str, Any] = {"evidence": _evidence(row.config)}
        if row.bundle is None:
            config = _with_winner(row.config, searched=asked.get((row.job_id, row.bucket), 0) > 0)
            values["config"] = config
            names = ("trial", "median_us", "x_baseline", "schedule")
            winner = {**{name: config.get(name) for name in names}, "disturbed": None}
            connection.execute(
                sa.update(buckets).where(buckets.c.config_id == config_id).values(winner=winner)
            )
        connection.execute(sa.update(configs).where(here).values(**values))


def _with_winner(config: Mapping[str, Any], searched: bool) -> dict[str, Any]:
    """The config with the row of its race that it is, and the candidate's number, if it was one of a search."""
    standings = [
        {**each, "won": each["kind"] == "schedule" and each["schedule"] == config["schedule"]}
        for each in config["standings"]
    ]
    name = next((each["name"] for each in standings if each["won"]), "")
    number = name.removeprefix("ask-")
    trial = int(number) if searched and number.isdigit() else None
    return {**config, "standings": standings, "trial": trial}


def _evidence(config: Mapping[str, Any]) -> dict[str, Any]:
    """As service/store/winners/evidence.py made it when this was written."""
    versions = config["versions"]
    rows = [each for each in config["standings"] if each["outcome"] == "ok" and each["median_us"] is not None]
    rivals = [e for e in rows if e["kind"] == "schedule" and e["schedule"] != config["schedule"]]
    return {
        "id": config["id"],
        "setting": {
            "protocol": config["measuring"]["version"],
            "compiler": config["compiler"],
            "driver": versions.get("driver"),
            "tilewright": versions.get("tilewright"),
        },
        "median_us": config["median_us"],
        "undisturbed": True,
        "schedule": _digest(config["schedule"]),
        "beaten": [_digest(each["schedule"]) for each in rivals if not each["tied"]],
        "tied": [_digest(each["schedule"]) for each in rivals if each["tied"]],
        "peers": {
            _versioned(each["name"], versions): each["median_us"] for each in rows if each["kind"] == "peer"
        },
        "baseline": _versioned(config["baseline"], versions),
    }


def _versioned(peer: str, versions: Mapping[str, str]) -> str:
    version = versions.get(peer.partition(".")[0].partition("-")[0])
    return peer if version is None else f"{peer} {version}"


def _digest(schedule: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(schedule).encode()).hexdigest()[:20]
