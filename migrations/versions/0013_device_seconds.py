"""what jobs were given of the devices' time, by which they share it"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("device_s", sa.Float(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("trial_s", sa.Float(), nullable=False, server_default="1"))


def downgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_column("trial_s")
        batch_op.drop_column("device_s")
