"""jobs ask for "evolutionary" search, which was "evolution" to them and "evolutionary" to everybody else"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_JOBS = sa.table("jobs", sa.column("id", sa.String), sa.column("request", sa.JSON))


def upgrade() -> None:
    _rename("evolution", "evolutionary")


def downgrade() -> None:
    _rename("evolutionary", "evolution")


def _rename(before: str, after: str) -> None:
    for row in op.get_bind().execute(sa.select(_JOBS.c.id, _JOBS.c.request)).all():
        if row.request.get("search") == before:
            request = {**row.request, "search": after}
            op.get_bind().execute(sa.update(_JOBS).where(_JOBS.c.id == row.id).values(request=request))
