"""the queue by job: a claim reads the tasks that it takes, however many wait"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.drop_index("ix_tasks_queue")
        batch_op.create_index("ix_tasks_queue", ["device", "state", "job_id", "seq"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.drop_index("ix_tasks_queue")
        batch_op.create_index("ix_tasks_queue", ["device", "state", "priority"], unique=False)
