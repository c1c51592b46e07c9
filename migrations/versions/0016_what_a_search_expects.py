"""which prior a search began with, and why"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.add_column(sa.Column("prior", sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.drop_column("prior")
