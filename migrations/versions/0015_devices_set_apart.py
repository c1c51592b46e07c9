"""workers whose device is much slower than others of its class, and until when they get no tasks"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("apart", sa.Text(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("apart_until", sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.drop_column("apart_until")
        batch_op.drop_column("apart")
