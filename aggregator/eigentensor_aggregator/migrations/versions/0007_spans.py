"""Sums over spans of blocks, for charts, out of the tasks that are known"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

SPAN = 64
SUMS = ("posted", "priced", "price_gwei", "ended", "final", "burned_gwei")
FILL = f"""
INSERT INTO spans (span, {", ".join(SUMS)})
SELECT span, sum(posted), sum(priced), sum(price_gwei), sum(ended), sum(final), sum(burned_gwei) FROM (
    SELECT posted_block / {SPAN} AS span, 1 AS posted, CASE WHEN price_gwei IS NULL THEN 0 ELSE 1 END AS priced,
        coalesce(price_gwei, 0) AS price_gwei, 0 AS ended, 0 AS final, 0 AS burned_gwei
    FROM tasks
    UNION ALL
    SELECT ended_block / {SPAN}, 0, 0, 0, 1, CASE WHEN state = 'final' THEN 1 ELSE 0 END, coalesce(burned_gwei, 0)
    FROM tasks WHERE ended_block IS NOT NULL
) AS parts GROUP BY span
"""


def upgrade() -> None:
    """Adds them."""
    sums = [sa.Column(name, sa.BigInteger, nullable=False) for name in SUMS]
    op.create_table("spans", sa.Column("span", sa.BigInteger, primary_key=True, autoincrement=False), *sums)
    op.execute(FILL)
