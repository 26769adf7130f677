"""What the tasks that operators accepted last tell of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Session, SQLModel

from eigentensor_aggregator.tables import TaskRow

#: Price in wei as its column has it, and the blocks of acceptance and commit.
Row = tuple[str, int, int | None]
RECENT = 16  #: tasks of an operator that tell for what it works, and how fast
_TASKS = SQLModel.metadata.tables[str(TaskRow.__tablename__)].c


class Recent(NamedTuple):
    """How many tasks they are, the prices of the cheapest, the middle and the dearest in wei, and the blocks from an
    acceptance to its commit, in the middle; None if it committed to none."""

    tasks: int
    lowest: int
    median: int
    highest: int
    blocks: int | None

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Recent | None":
        """What these tell; None without any."""
        these = list(rows)
        prices = sorted(int(price) for price, _, _ in these)
        took = [committed - accepted for _, accepted, committed in these if committed is not None]
        if not prices:
            return None
        return cls(len(prices), prices[0], median_low(prices), prices[-1], median_low(took) if took else None)


def read(session: Session, operators: Sequence[str]) -> dict[str, Recent | None]:
    """For each operator what the newest tasks that it accepted tell."""
    rows: dict[str, list[Row]] = defaultdict(list)
    connection = session.connection()
    if connection.dialect.name == "postgresql":  # it takes a statement for each operator ten times as long
        found = connection.execute(_OF_ALL, {"who": list(operators)})
        for operator, price, accepted, committed in found.all():
            rows[operator].append((price, accepted, committed))
    else:
        for operator in operators:
            found = connection.execute(_OF_ONE, {"who": operator})
            rows[operator] = [(price, accepted, committed) for price, accepted, committed in found]
    return {operator: Recent.of(rows[operator]) for operator in operators}


def _newest(executor: sa.ColumnElement[str]) -> "sa.Select[Row]":
    return (
        sa.select(_TASKS.price, _TASKS.accepted_block, _TASKS.committed_block)
        .where(_TASKS.executor == executor)
        .order_by(_TASKS.posted_block.desc(), _TASKS.posted_index.desc())
        .limit(RECENT)
    )


_OF_ONE = _newest(sa.bindparam("who"))
_NAMED = sa.func.unnest(sa.bindparam("who", type_=ARRAY(sa.String))).table_valued("who").render_derived()
_EACH = _newest(_NAMED.c.who).lateral()
_OF_ALL = sa.select(_NAMED.c.who, *_EACH.c).join_from(_NAMED, _EACH, sa.true())
