"""Seeds, answers, games, looks; everything is read from the chain again"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

FOLDED = ("blocks", "events", "tasks", "operators")


def upgrade() -> None:
    """Adds what disputes need; everything else is read from the chain anew."""
    for table in FOLDED:
        op.execute(f"DELETE FROM {table}")
    op.add_column("events", sa.Column("sender", sa.String))
    op.add_column("events", sa.Column("gas", sa.BigInteger))
    op.drop_index("tasks_by_deadline", "tasks")
    op.drop_column("tasks", "deadline")
    op.add_column("tasks", sa.Column("outputs_root", sa.String))
    for name in ("seed_block", "wake", "sleep"):
        op.add_column("tasks", sa.Column(name, sa.BigInteger))
    op.create_index("ix_tasks_state", "tasks", ["state"])
    op.create_index("ix_tasks_seed_block", "tasks", ["seed_block"])
    op.create_index("tasks_awake", "tasks", ["wake", "sleep"])
    for name in ("stake_cap", "seats"):
        op.add_column("operators", sa.Column(name, sa.String, nullable=False, server_default="0"))
    op.create_table(
        "games",
        sa.Column("game", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("task", sa.String, nullable=False),
        sa.Column("executor", sa.String),
        sa.Column("challenger", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("opened_block", sa.BigInteger, nullable=False),
        sa.Column("opened_index", sa.Integer, nullable=False),
    )
    op.create_index("ix_games_task", "games", ["task"])
    op.create_index("ix_games_challenger", "games", ["challenger"])
    op.create_index("ix_games_state", "games", ["state"])
    op.create_index("games_by_age", "games", ["opened_block", "opened_index"])
    op.create_table(
        "looks",
        sa.Column("task", sa.String, primary_key=True),
        sa.Column("claim", sa.String, primary_key=True),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("words", sa.String, nullable=False),
        sa.Column("said", sa.String, nullable=False),
        sa.Column("over", sa.Boolean, nullable=False),
    )
