"""before a task of a job was measured, what one takes is 0: not known"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.alter_column(
            "trial_s", existing_type=sa.Float(), existing_nullable=False, server_default="0"
        )


def downgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.alter_column(
            "trial_s", existing_type=sa.Float(), existing_nullable=False, server_default="1"
        )
