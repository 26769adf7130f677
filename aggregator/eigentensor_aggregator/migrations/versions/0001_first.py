"""The first tables"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the first tables."""
    op.create_table(
        "meta",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.String, nullable=False),
    )
    op.create_table(
        "blocks",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("log_index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("block_hash", sa.LargeBinary, nullable=False),
        sa.Column("transaction", sa.LargeBinary, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("arguments", sa.JSON, nullable=False),
    )
    op.create_index("events_of_subject", "events", ["subject", "block", "log_index"])
    op.create_table(
        "tasks",
        sa.Column("task", sa.String, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("client", sa.String, nullable=False),
        sa.Column("executor", sa.String),
        sa.Column("posted_block", sa.BigInteger, nullable=False),
        sa.Column("posted_index", sa.Integer, nullable=False),
        sa.Column("deadline", sa.BigInteger),
    )
    op.create_index("ix_tasks_client", "tasks", ["client"])
    op.create_index("ix_tasks_executor", "tasks", ["executor"])
    op.create_index("tasks_by_age", "tasks", ["posted_block", "posted_index"])
    op.create_index("tasks_by_deadline", "tasks", ["state", "deadline"])
    op.create_table(
        "operators",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("member", sa.Boolean, nullable=False),
        sa.Column("signer", sa.String),
        sa.Column("collateral_cap", sa.String, nullable=False),
    )
    op.create_table(
        "declines",
        sa.Column("task", sa.String, primary_key=True),
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("needed", sa.String, nullable=False),
        sa.Column("offered", sa.String, nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "blobs",
        sa.Column("blob", sa.String, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("computed", sa.String),
        sa.Column("pieces", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_blobs_computed", "blobs", ["computed"])


def downgrade() -> None:
    """Drops them all."""
    for table in ("blobs", "declines", "operators", "tasks", "events", "blocks", "meta"):
        op.drop_table(table)
