"""When blobs were named and looked at last"""

import time

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """What is there counts as named now, and as never looked at."""
    op.add_column("blobs", sa.Column("since", sa.BigInteger, nullable=False, server_default=str(int(time.time()))))
    op.add_column("blobs", sa.Column("checked", sa.BigInteger, nullable=False, server_default="0"))
    for name in ("since", "checked"):
        op.create_index(f"ix_blobs_{name}", "blobs", [name])
