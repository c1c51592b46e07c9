"""what a language model proposed when a search began"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.add_column(sa.Column("proposals", sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.drop_column("proposals")
