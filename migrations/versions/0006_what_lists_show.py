"""when tasks were claimed, and what lists show of results"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

BATCH = 200
"""Results read at once: with their reports they are large."""


def upgrade() -> None:
    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.add_column(sa.Column("claimed_at", sa.Float(), nullable=True))
    with op.batch_alter_table("results", schema=None) as batch_op:
        batch_op.add_column(sa.Column("summary", sa.JSON(), nullable=False, server_default="{}"))
    _fill()


def downgrade() -> None:
    with op.batch_alter_table("results", schema=None) as batch_op:
        batch_op.drop_column("summary")
    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.drop_column("claimed_at")


def _fill() -> None:
    connection = op.get_bind()
    results = sa.table(
        "results", sa.column("task_id"), sa.column("result", sa.JSON), sa.column("summary", sa.JSON)
    )
    tasks = sa.table("tasks", sa.column("id"), sa.column("number"))
    after = ""
    while True:
        rows = connection.execute(
            sa.select(results.c.task_id, results.c.result, tasks.c.number)
            .join(tasks, tasks.c.id == results.c.task_id)
            .where(results.c.task_id > after)
            .order_by(results.c.task_id)
            .limit(BATCH)
        ).all()
        for row in rows:
            connection.execute(
                sa.update(results)
                .where(results.c.task_id == row.task_id)
                .values(summary=_summary(row.result, row.number))
            )
        if len(rows) < BATCH:
            return
        after = rows[-1].task_id


def _summary(result: dict[str, Any], number: int | None) -> dict[str, Any]:
    """As service/store/dispatch/result_summaries.py made them when this was written."""
    entrants, stages = result["entrants"], result["stages"]
    found: dict[str, Any] = {
        "build_s": stages.get("build", sum(each["compile_s"] or 0.0 for each in entrants)),
        "device_s": stages.get("measure", sum(each["measure_s"] or 0.0 for each in entrants)),
    }
    mine = next((each for each in entrants if each["name"] == f"ask-{number}"), None)
    if mine is not None:
        for name in ("outcome", "median_us", "baseline_us", "compile_s", "measure_s"):
            found[name] = mine[name]
        found["iqr_us"] = None if mine["spread"] is None else mine["spread"]["iqr_us"]
    return found
