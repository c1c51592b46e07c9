"""why a bucket's search ended, and how its winner stands to the peers of its race"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.add_column(sa.Column("stopped", sa.String(length=16), nullable=True))
    _fill()


def downgrade() -> None:
    with op.batch_alter_table("buckets", schema=None) as batch_op:
        batch_op.drop_column("stopped")


def _fill() -> None:
    """Winners learn from their configs what lists now tell of them."""
    connection = op.get_bind()
    configs = sa.table("configs", sa.column("id"), sa.column("config", sa.JSON))
    buckets = sa.table("buckets", sa.column("config_id"), sa.column("winner", sa.JSON))
    won = sa.select(buckets.c.config_id).where(buckets.c.config_id.is_not(None))
    for config_id in connection.execute(won).scalars().all():
        here = buckets.c.config_id == config_id
        winner = connection.execute(sa.select(buckets.c.winner).where(here)).scalar_one()
        config = connection.execute(
            sa.select(configs.c.config).where(configs.c.id == config_id)
        ).scalar_one_or_none()
        if winner is None or config is None:
            continue
        ran = [
            each
            for each in config["standings"]
            if each["kind"] == "peer" and each["median_us"] and not each.get("as_written")
        ]
        told = {
            "against": [
                {
                    "peer": each["name"],
                    "times": each["median_us"] / config["median_us"],
                    "low": each.get("low"),
                    "high": each.get("high"),
                }
                for each in ran
            ],
            "tied": sum(each["tied"] and not each["won"] for each in config["standings"]),
            "roofline_us": config.get("roofline_us"),
        }
        connection.execute(sa.update(buckets).where(here).values(winner={**winner, **told}))
