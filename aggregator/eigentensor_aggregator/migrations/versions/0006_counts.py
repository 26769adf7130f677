"""Counts of tasks, what lists of operators tell, and indexes for pairs of filters; everything is read anew"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

FOLDED = ("blocks", "events", "tasks", "games", "operators", "pools", "channels", "batches", "lines", "call_games")
PAIRS = (("client", "state"), ("executor", "state"), ("program", "state"), ("client", "executor"))


def upgrade() -> None:
    """Adds them; what was known is read anew, with them."""
    for table in FOLDED:
        op.execute(f"DELETE FROM {table}")
    with op.batch_alter_table("tasks") as tasks:
        tasks.add_column(sa.Column("price", sa.String))
        for name in ("accepted_block", "committed_block"):
            tasks.add_column(sa.Column(name, sa.BigInteger))
        for pair in PAIRS:
            tasks.create_index(f"tasks_by_{'_'.join(pair)}", [*pair, "posted_block", "posted_index"])
    op.create_table(
        "tallies",
        sa.Column("executor", sa.String, primary_key=True),
        sa.Column("state", sa.String, primary_key=True),
        sa.Column("tasks", sa.BigInteger, nullable=False),
        sa.Column("paid_gwei", sa.BigInteger, nullable=False),
    )
    op.create_index("looks_unsaid", "looks", ["said"])
    op.create_index("looks_by_verdict", "looks", ["verdict", "over"])
