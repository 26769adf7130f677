"""SQLite and PostgreSQL are told the same in different ways, and remember the same."""

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlmodel import SQLModel

from eigentensor.chain import Changes
from eigentensor_aggregator.recent import RECENT
from eigentensor_aggregator.store import Store
from support.stories.crowd import Crowd, told

#: More operators, and tasks, than are told one by one.
CROWD = Crowd(tasks=200, operators=8, per_block=10)


def rows_of(store: Store) -> dict[str, list[Any]]:
    """All that the tables have, in the order of their keys."""
    with store.session() as session:
        return {
            name: [tuple(row) for row in session.connection().execute(select(table).order_by(*table.primary_key))]
            for name, table in SQLModel.metadata.tables.items()
            if name != "alembic_version"
        }


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_both_databases_remember_the_same(database: str) -> None:
    """As it happens, where half of it is taken back, and where nothing is taken over since a part cannot be."""
    read, half = told(CROWD, 10_000), CROWD.head // 2
    happened = tuple(event for changes in read for event in changes.events)
    again = tuple(event for event in happened if event.place.block > half)
    heads = tuple(head for changes in read for head in changes.heads)
    stores = Store("sqlite://", CROWD.deployment), Store(database, CROWD.deployment)
    try:
        for store in stores:
            for changes in read:
                store.apply(changes)
        whole, streamed = map(rows_of, stores)
        assert whole == streamed
        everybody = [CROWD.operator(number) for number in range(CROWD.operators)]
        told_of, together = (store.recent(everybody) for store in stores)
        assert told_of == together and max(one.tasks for one in told_of.values()) == RECENT
        for store in stores:
            with pytest.raises(DBAPIError):
                store.apply(Changes(None, again, heads[-1:], complete=True))
            assert rows_of(store) == whole
            store.apply(Changes(half, (), (), complete=True))
            store.apply(Changes(None, again, tuple(head for head in heads if head.number > half), complete=True))
        after, streamed = map(rows_of, stores)
        assert after == streamed
        assert all(after[name] == whole[name] for name in ("blocks", "events", "tasks", "games", "operators"))
    finally:
        for store in stores:
            store.close()
