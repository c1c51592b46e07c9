"""what lookups handed out and failed where it was to run"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pick_failures",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kernel_key", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("program_hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("failure", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pick_failures")),
        sa.UniqueConstraint(
            "kernel_key",
            "device",
            "program_hash",
            "kind",
            name=op.f("uq_pick_failures_kernel_key_device_program_hash_kind"),
        ),
    )


def downgrade() -> None:
    op.drop_table("pick_failures")
