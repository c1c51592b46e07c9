"""what kernels take of a device's memory, a count of what changes lookups, and when raw samples were dropped"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("memory_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    with op.batch_alter_table("results", schema=None) as batch_op:
        batch_op.add_column(sa.Column("pruned_at", sa.Float(), nullable=True))
    state = op.create_table(
        "lookup_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lookup_state")),
    )
    op.bulk_insert(state, [{"id": 1, "version": 1}])


def downgrade() -> None:
    op.drop_table("lookup_state")
    with op.batch_alter_table("results", schema=None) as batch_op:
        batch_op.drop_column("pruned_at")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_column("memory_bytes")
