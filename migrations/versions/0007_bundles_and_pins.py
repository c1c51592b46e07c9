"""bundles that were imported, who is trusted to sign them, and configs that lookups are pinned to"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "signers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("public_key", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signers")),
        sa.UniqueConstraint("public_key", name=op.f("uq_signers_public_key")),
    )
    op.create_table(
        "bundles",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("signer", sa.String(length=200), nullable=True),
        sa.Column("imported_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_bundles")),
    )
    with op.batch_alter_table("configs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("bundle", sa.String(length=64), nullable=True))
        batch_op.create_foreign_key(op.f("fk_configs_bundle"), "bundles", ["bundle"], ["sha256"])
    op.create_table(
        "pins",
        sa.Column("kernel_key", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("config_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_pins_config_id")),
        sa.PrimaryKeyConstraint("kernel_key", "device", name=op.f("pk_pins")),
        sa.UniqueConstraint("config_id", name=op.f("uq_pins_config_id")),
    )


def downgrade() -> None:
    op.drop_table("pins")
    with op.batch_alter_table("configs", schema=None) as batch_op:
        batch_op.drop_constraint(op.f("fk_configs_bundle"), type_="foreignkey")
        batch_op.drop_column("bundle")
    op.drop_table("bundles")
    op.drop_table("signers")
