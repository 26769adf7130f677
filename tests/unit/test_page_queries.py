"""What pages ask of the database is answered from indexes, so that a page of 100,000 tasks takes no longer than one of
a hundred."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.event import listen, remove

from eigentensor.chain import Changes, Head
from eigentensor.task import Accepted, Cause, Closed, Convicted, Failed, TaskEvent
from eigentensor_aggregator.database import upgrade
from eigentensor_aggregator.pages import charts
from eigentensor_aggregator.queries import Bucket, Queries
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.tables import SPAN
from eigentensor_aggregator.watch.looks import Looks
from support.stories.aggregator import CLIENT, DEPLOYMENT, EXECUTOR, accepted, at, committed, posted, revealed

GWEI = 10**9


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store("sqlite://", DEPLOYMENT)
    yield store
    store.close()


def plans(store: Store, ask: Callable[[], object]) -> list[str]:
    """How SQLite goes about what is asked of `tasks`."""
    asked: list[tuple[str, object]] = []

    def note(_: object, __: object, statement: str, parameters: object, *___: object) -> None:
        asked.append((statement, parameters))

    listen(store.engine, "before_cursor_execute", note)
    ask()
    remove(store.engine, "before_cursor_execute", note)
    with store.engine.connect() as connection:
        steps = [
            str(row[3])
            for statement, parameters in asked
            if " tasks" in statement
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[arg-type]
        ]
    return steps


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({}, "tasks_by_age"),
        ({"state": "open"}, "tasks_by_state"),
        ({"client": CLIENT}, "tasks_by_client"),
        ({"executor": EXECUTOR}, "tasks_by_executor"),
        ({"program": "02" * 32}, "tasks_by_program"),
        ({"client": CLIENT, "state": "open"}, "tasks_by_client_state"),
        ({"executor": EXECUTOR, "state": "open"}, "tasks_by_executor_state"),
        ({"program": "02" * 32, "state": "open"}, "tasks_by_program_state"),
        ({"client": CLIENT, "executor": EXECUTOR}, "tasks_by_client_executor"),
    ],
)
def test_a_page_of_a_list_is_read_in_its_order_from_an_index(store: Store, asked: dict[str, Any], index: str) -> None:
    queries = Queries(store)
    first = plans(store, lambda: queries.tasks(**asked, limit=51))
    later = plans(store, lambda: queries.tasks(**asked, before=(7, 1), limit=51))
    for steps in (first, later):
        assert len(steps) == 1 and f"{index} (" in steps[0] + " (", steps  # no step that sorts
    assert later[0].startswith("SEARCH") and "posted_block" in later[0]


def test_counts_and_charts_read_no_more_than_their_blocks(store: Store) -> None:
    queries = Queries(store)
    assert plans(store, queries.counts) == []  # counted while they change
    steps = plans(store, lambda: queries.buckets(90, 5))
    assert {step.split(" (")[0] for step in steps if "TEMP" not in step} == {
        "SEARCH tasks USING INDEX tasks_by_age",
        "SEARCH tasks USING INDEX tasks_by_end",
    }


def test_sums_over_spans_say_what_their_tasks_do_and_read_none_of_them(store: Store) -> None:
    def happened(number: int) -> list[TaskEvent]:
        task, block = bytes([number]) * 32, 37 * number
        accepts = Accepted(at(block + 2), task, EXECUTOR, number * GWEI, 7 * number * GWEI)
        fails, closes = Failed(at(block + 90), task, 1, number * GWEI), Closed(at(block + 90), task, number * GWEI, 1)
        after: list[list[TaskEvent]] = [[], [accepts], [accepts, fails], [accepts, closes]]
        return [posted(block, task), *after[number % 4]]

    events = sorted((event for number in range(1, 30) for event in happened(number)), key=lambda event: event.place)
    store.apply(Changes(None, tuple(events), (Head(1200, b"h" * 32),), True))
    queries = Queries(store)
    for size in (SPAN, 5 * SPAN):
        assert plans(store, partial(queries.buckets, size, size)) == []
        summed, listed = queries.buckets(size, size), queries._listed(size, size)
        assert len(summed) >= 3 and any(bucket.burned for bucket in summed.values())
        assert _without_price(summed) == _without_price(listed)
        assert {at: b.price for at, b in summed.items()} == pytest.approx({at: b.price for at, b in listed.items()})
    with store.engine.begin() as connection:  # as the version before left it
        rows = connection.execute(text("SELECT * FROM spans ORDER BY span")).all()
        connection.execute(text("DROP TABLE spans"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0006'"))
    upgrade(store.engine)
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT * FROM spans ORDER BY span")).all() == rows != []


def _without_price(buckets: Mapping[int, Bucket]) -> dict[int, Bucket]:
    return {number: bucket._replace(price=None) for number, bucket in buckets.items()}


def test_a_watcher_reads_what_is_left_to_do_from_indexes(store: Store) -> None:
    steps = plans(store, lambda: Looks(store).lives(CLIENT, lambda _: True))
    assert steps and not any(step.startswith("SCAN") for step in steps), steps


def test_what_is_drawn_is_what_happened(store: Store) -> None:
    other, lost = b"\x08" * 32, b"\x09" * 32
    happened = [
        posted(10), accepted(12), committed(15), revealed(30), Closed(at(41), b"\7" * 32, 9 * GWEI, 1),
        posted(11, other), accepted(13, other), Failed(at(43), other, 1, 2 * GWEI + 5),
        posted(17, lost), Accepted(at(18), lost, EXECUTOR, GWEI, 7 * GWEI), committed(19, lost),
        Convicted(at(44), lost, Cause.SILENCE, CLIENT, 1),
    ]  # fmt: skip
    events = sorted(happened, key=lambda event: event.place.block)
    store.apply(Changes(None, tuple(events), (Head(50, b"h" * 32),), True))
    queries = Queries(store)
    assert queries.first_block() == 10
    assert queries.buckets(0, 10) == {
        1: Bucket(posted=3, price=1 / 3),
        4: Bucket(ended=3, final=1, burned=2 + 4),  # W is twice the price, and a little
    }
    span = charts.span(10, 50, 0)
    assert span == charts.Span(10, 50, 1)
    assert charts.throughput(queries.buckets(10, 1), span)[:2] == [(10, 1, 0), (11, 1, 0)]
    assert charts.burn(queries.buckets(10, 1), span)[-1] == (50, 6e-9)
    assert charts.span(0, 100_000, 4096) == charts.Span(1115, 1162, 86)
    assert charts.span(0, 100_000, 0) == charts.Span(0, 47, 33 * SPAN)
    with store.session() as session:
        assert session.connection().execute(text("SELECT sum(paid_gwei) FROM tasks")).scalar() == 9
