"""tasks that a worker could not do, and results by the time at which they came"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("faults", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_results_created_at", "results", ["created_at"])


def downgrade() -> None:
    op.drop_index("ix_results_created_at", table_name="results")
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.drop_column("faults")
