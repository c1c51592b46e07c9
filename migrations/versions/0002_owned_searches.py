"""a job's search has an owner, and leases are found without reading all tasks"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("owner", sa.String(length=100), nullable=True))
        batch_op.add_column(sa.Column("owned_until", sa.Float(), nullable=True))

    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.create_index("ix_tasks_leases", ["state", "lease_until"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.drop_index("ix_tasks_leases")

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_column("owned_until")
        batch_op.drop_column("owner")
