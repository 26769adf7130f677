"""Pools, channels and batches of paid calls; everything is read from the chain again"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

FOLDED = ("blocks", "events", "tasks", "games", "operators")


def upgrade() -> None:
    """Adds what paid calls need; everything else is read from the chain anew, with their events."""
    for table in FOLDED:
        op.execute(f"DELETE FROM {table}")
    op.create_table(
        "pools",
        sa.Column("pool", sa.String, primary_key=True),
        sa.Column("operator", sa.String, nullable=False),
        sa.Column("offered_block", sa.BigInteger, nullable=False),
        sa.Column("offered_index", sa.Integer, nullable=False),
        sa.Column("begun", sa.BigInteger, nullable=False),
        sa.Column("is_over", sa.Boolean, nullable=False),
        sa.Column("offer", sa.JSON, nullable=False),
    )
    op.create_index("ix_pools_operator", "pools", ["operator"])
    op.create_index("pools_by_age", "pools", ["offered_block", "offered_index"])
    op.create_table(
        "channels",
        sa.Column("channel", sa.String, primary_key=True),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("client", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("opened_block", sa.BigInteger, nullable=False),
        sa.Column("deposit", sa.String, nullable=False),
        sa.Column("paid", sa.String, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("deal", sa.JSON, nullable=False),
    )
    op.create_index("ix_channels_pool", "channels", ["pool"])
    op.create_index("ix_channels_client", "channels", ["client"])
    op.create_table(
        "batches",
        sa.Column("batch", sa.String, primary_key=True),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("operator", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("begun_block", sa.BigInteger, nullable=False),
        sa.Column("begun_index", sa.Integer, nullable=False),
        sa.Column("seed_block", sa.BigInteger),
        sa.Column("wake", sa.BigInteger),
        sa.Column("sleep", sa.BigInteger),
    )
    for name in ("pool", "operator", "state", "seed_block"):
        op.create_index(f"ix_batches_{name}", "batches", [name])
    op.create_index("batches_by_age", "batches", ["begun_block", "begun_index"])
    op.create_index("batches_awake", "batches", ["wake", "sleep"])
    op.create_table(
        "lines",
        sa.Column("batch", sa.String, primary_key=True),
        sa.Column("channel", sa.String, primary_key=True),
    )
    op.create_index("ix_lines_channel", "lines", ["channel"])
    op.create_table(
        "call_games",
        sa.Column("task", sa.String, primary_key=True),
        sa.Column("batch", sa.String, nullable=False),
    )
    op.create_index("ix_call_games_batch", "call_games", ["batch"])
