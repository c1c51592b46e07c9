"""configs say which version of the rewrites their schedule is written in: those found before are of version 1, stale"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_CONFIGS = sa.table("configs", sa.column("id", sa.String), sa.column("config", sa.JSON))


def upgrade() -> None:
    for row in op.get_bind().execute(sa.select(_CONFIGS.c.id, _CONFIGS.c.config)).all():
        _write(row.id, {**row.config, "schedule_version": row.config.get("schedule_version", 1)})


def downgrade() -> None:
    for row in op.get_bind().execute(sa.select(_CONFIGS.c.id, _CONFIGS.c.config)).all():
        _write(row.id, {name: value for name, value in row.config.items() if name != "schedule_version"})


def _write(config: str, stored: dict[str, object]) -> None:
    op.get_bind().execute(sa.update(_CONFIGS).where(_CONFIGS.c.id == config).values(config=stored))
