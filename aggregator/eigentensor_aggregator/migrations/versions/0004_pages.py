"""What pages list and draw of tasks, in columns with indexes; everything is read from the chain again"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

FOLDED = ("blocks", "events", "tasks", "games", "operators", "pools", "channels", "batches", "lines", "call_games")
FILTERS = ("state", "client", "executor", "program")


def upgrade() -> None:
    """Adds the columns; what was known is read anew, with them."""
    for table in FOLDED:
        op.execute(f"DELETE FROM {table}")
    with op.batch_alter_table("tasks") as tasks:
        tasks.add_column(sa.Column("program", sa.String, nullable=False))
        tasks.add_column(sa.Column("ended_block", sa.BigInteger))
        for name in ("price_gwei", "paid_gwei", "burned_gwei"):
            tasks.add_column(sa.Column(name, sa.BigInteger))
        for name in ("state", "client", "executor"):
            tasks.drop_index(f"ix_tasks_{name}")
        for name in FILTERS:
            tasks.create_index(f"tasks_by_{name}", [name, "posted_block", "posted_index"])
        tasks.create_index("tasks_by_end", ["ended_block"])
    op.create_index("declines_by_operator", "declines", ["operator", "block"])
