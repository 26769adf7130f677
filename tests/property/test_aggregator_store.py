"""Whatever the chain does, the aggregator's database is what the present chain alone would have made of it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.event import listen, remove
from sqlalchemy.orm import Session as SqlSession
from sqlmodel import select

from eigentensor.chain import Changes, Head
from eigentensor.dispute import Phase, Reason
from eigentensor.task import (
    Accepted,
    BondReturned,
    Cancelled,
    Challenged,
    Committed,
    Ended,
    Event,
    Life,
    Moved,
    Opened,
    OperatorJoined,
    OperatorLeft,
    Place,
    Posted,
    Revealed,
    SeatsSet,
    Seeded,
    SignerSet,
    State,
    TaskEvent,
    fold,
)
from eigentensor_aggregator.events import Sent
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.store import Known, Store
from eigentensor_aggregator.tables import SPAN, EventRow, GameRow, OperatorRow, SpanRow, TaskRow
from support.stories.aggregator import ADDRESSES, DEPLOYMENT, ORDER, PARAMETERS, position

TASKS = [(bytes([number + 1]) * 32).hex() for number in range(3)]


def happened(kind: int, subject: int, place: Place) -> Event:
    task, operator = bytes([subject + 1]) * 32, ADDRESSES[subject]
    made: list[Event] = [
        Posted(place, task, ORDER.client, ORDER),
        Accepted(place, task, operator, 1, 2),
        Committed(place, task, bytes(32)),
        Revealed(place, task, 0, b"\1" * 32),
        Cancelled(place, task),
        OperatorJoined(place, operator),
        OperatorLeft(place, operator),
        SignerSet(place, operator, ADDRESSES[kind % 3], place.block, place.block),
        SeatsSet(place, operator, place.block),
        Seeded(place, place.block - place.block % 2, place.block_hash),
        Opened(place, task, subject + 1, operator, position()),
        Challenged(place, task, subject + 1, operator, 5),
        Moved(place, task, subject + 1, position(Phase.LEAF, place.block), b"data"),
        Ended(place, task, subject + 1, bool(place.block % 2), Reason.CLOCK),
        BondReturned(place, task, subject + 1, operator, 5),
    ]
    return made[kind]


EVENTS = tuple(
    event for kind in (0, 1) if isinstance(event := happened(kind, 0, Place(1, kind, bytes(32), bytes(32))), TaskEvent)
)
BLOCKS = st.lists(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 2)), max_size=4), max_size=4)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("stores")
    made = [Store(f"sqlite:///{folder / name}", DEPLOYMENT) for name in ("followed", "fresh")]
    yield made
    for store in made:
        store.close()


def content(store: Store) -> list[dict[str, Any]]:
    with store.session() as session:
        tables = (EventRow, TaskRow, GameRow, OperatorRow)
        rows = [row.model_dump() for table in tables for row in session.exec(select(table)).all()]
        spans = [row.model_dump() for row in session.exec(select(SpanRow)).all()]
    happened = [span for span in spans if span["posted"] or span["ended"]]  # of what was taken back zeros stay
    return sorted([*rows, *happened], key=repr)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.tuples(st.integers(0, 5), BLOCKS), max_size=5))
def test_following_a_chain_through_reorganisations_ends_where_reading_it_once_does(
    stores: list[Store], rounds: list[tuple[int, Any]]
) -> None:
    followed, fresh = stores
    queries = Queries(followed)
    for store in stores:
        store.apply(Changes(0, (), (), complete=True))
        assert content(store) == []
    canonical: list[list[Event]] = []
    for fork, (depth, blocks) in enumerate(rounds):
        kept = max(0, len(canonical) - depth)
        rolled_back = kept if kept < len(canonical) else None
        canonical = canonical[:kept]
        new: list[Event] = []
        for number, specified in enumerate(blocks, start=kept + 1):
            hash_ = bytes([fork, number]) * 16
            events = [happened(kind, who, Place(number, i, hash_, hash_)) for i, (kind, who) in enumerate(specified)]
            canonical.append(events)
            new += events
        heads = (Head(len(canonical), bytes([fork, len(canonical)]) * 16),) if blocks else ()
        sent = {event.place.transaction: Sent(ADDRESSES[0], fork) for event in new}
        followed.apply(Changes(rolled_back, tuple(new), heads, complete=True), sent)
        for task in TASKS:  # which are known from now on
            assert followed.task(task) is None or followed.moves(task)
        assert len(queries.operators()) <= len(ADDRESSES)
        assert [head.number for head in followed.heads()] == sorted({head.number for head in followed.heads()})
        assert all(head.number <= len(canonical) for head in followed.heads())
    history = tuple(event for block in canonical for event in block)
    sent = {event.place.transaction: Sent(ADDRESSES[0], event.place.block_hash[0]) for event in history}
    fresh.apply(Changes(None, history, (), complete=True), sent)
    assert content(followed) == content(fresh)
    assert [followed.task(task) for task in TASKS] == [fresh.task(task) for task in TASKS]
    operators, anew = (
        [(life.row.model_dump(), *life[1:]) for life in each.operators()] for each in (queries, Queries(fresh))
    )
    assert operators == anew
    assert queries.buckets(0, SPAN) == queries._listed(0, SPAN)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_number_of_a_game_is_another_tasks_after_a_reorganisation(tmp_path: Path, order: tuple[int, int]) -> None:
    def opened(subject: int, fork: int) -> list[Event]:
        places = [Place(2, n, bytes([fork]) * 32, bytes([fork]) * 32) for n in range(3)]
        posted = [happened(0, 0, places[0]), happened(0, 1, places[1])]
        return [*posted, Opened(places[2], bytes([subject + 1]) * 32, 1, ADDRESSES[0], position())]

    store = Store(f"sqlite:///{tmp_path / 'store'}", DEPLOYMENT)
    try:
        for fork, subject in enumerate(order):
            events, heads = tuple(opened(subject, fork)), (Head(1, bytes(32)), Head(2, bytes([fork]) * 32))
            store.apply(Changes(1 if fork else None, events, heads, complete=True))
        with store.session() as session:
            games = session.exec(select(GameRow)).all()
        assert [(game.game, game.task) for game in games] == [(1, bytes([order[-1] + 1]).hex() * 32)]
    finally:
        store.close()


def test_what_may_be_committed_is_forgotten(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'store'}", DEPLOYMENT)
    try:
        store.apply(Changes(None, EVENTS[:1], (Head(1, bytes(32)),), complete=True))
        task = store.task(TASKS[0])
        assert task is not None and task.state is State.OPEN

        def break_off(_: object) -> None:
            raise ConnectionError("the answer to a COMMIT is lost")

        listen(SqlSession, "after_commit", break_off)
        try:
            with pytest.raises(ConnectionError):
                store.apply(Changes(None, EVENTS[1:], (Head(2, bytes(32)),), complete=True))
        finally:
            remove(SqlSession, "after_commit", break_off)
        task = store.task(TASKS[0])
        assert task is not None and task.state is State.ACCEPTED
    finally:
        store.close()


def test_a_game_is_shown_as_soon_as_it_is_committed(tmp_path: Path) -> None:
    """Between the commit and `forget`, too, which other threads see."""
    store = Store(f"sqlite:///{tmp_path / 'store'}", DEPLOYMENT)
    queries, seen = Queries(store), list[object]()
    try:
        store.apply(Changes(None, EVENTS, (Head(1, bytes(32)),), complete=True))
        assert store.task(TASKS[0]) is not None  # it is in memory now, without a game
        game = happened(10, 0, Place(2, 0, bytes(32), bytes(32)))
        writing = True

        def look(_: object) -> None:
            nonlocal writing
            if writing:
                writing = False
                task = queries.task_of_game(1)
                seen.append(task and set(task.games))

        listen(SqlSession, "after_commit", look)
        try:
            store.apply(Changes(None, (game,), (Head(2, bytes(32)),), complete=True))
        finally:
            remove(SqlSession, "after_commit", look)
        assert seen == [{1}] and (task := store.task(TASKS[0])) is not None and set(task.games) == {1}
    finally:
        store.close()


def test_what_was_read_before_a_change_is_not_kept_after_it() -> None:
    open_, accepted = (life for those in (EVENTS[:1], EVENTS) if (life := fold(those, PARAMETERS)) is not None)
    known: Known[Life] = Known(most=1)
    version = known.version
    known.keep({TASKS[0]: open_}, version)
    assert known.of(TASKS) == {TASKS[0]: open_}
    known.forget(TASKS[:1])
    known.keep({TASKS[0]: open_}, version)  # by somebody who began to read before
    assert known.of(TASKS) == {}
    known.keep({TASKS[0]: accepted}, known.version)
    version = known.version
    known.forget(())  # nothing happened
    known.keep({TASKS[1]: open_}, version)
    assert known.of(TASKS) == {TASKS[1]: open_}
