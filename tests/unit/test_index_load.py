"""What keeps a gateway's index fast when tasks are many: how it reads, writes and counts, not how long that takes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy.event import listen, remove
from sqlalchemy.exc import DBAPIError
from sqlmodel import select

from eigentensor.chain import Changes, Head, Reader
from eigentensor.chain.history import EVENTS
from eigentensor.task import Event, SignerSet
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.events import Sent
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.recent import RECENT, Recent
from eigentensor_aggregator.store import HEADS, Store
from eigentensor_aggregator.tables import TaskRow
from eigentensor_aggregator.watch.machine import Act, Verdict
from support.stories.crowd import Crowd, served, told
from support.stories.daemons import until

CROWD = Crowd(tasks=600, operators=6, per_block=10)
MOST = 1_000  #: logs that the node gives at once


@pytest.fixture(scope="module")
def read() -> list[Changes]:
    """The whole history, from a node that refuses to answer with more than it likes."""
    return told(CROWD, MOST)


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store("sqlite://", CROWD.deployment)
    yield store
    store.close()


def events(read: list[Changes]) -> list[Event]:
    return [event for changes in read for event in changes.events]


def test_a_node_is_asked_for_as_many_blocks_as_it_has_answers_for(read: list[Changes]) -> None:
    """A node that refuses the first question is asked for half as much, and everything is read once."""
    assert len(events(read)) == sum(1 for _ in CROWD.logs(0, CROWD.head)) > MOST
    places = [event.place for event in events(read)]
    assert places == sorted(set(places))
    assert max(len(changes.events) for changes in read) <= MOST < EVENTS


def statements(store: Store, do: Callable[[], object]) -> int:
    """How many statements it takes."""
    asked = Counter[str]()

    def note(*_: object) -> None:
        asked["statements"] += 1

    listen(store.engine, "before_cursor_execute", note)
    do()
    remove(store.engine, "before_cursor_execute", note)
    return asked.total()


def test_twice_as_much_is_written_by_as_many_statements(store: Store, read: list[Changes]) -> None:
    happened, heads = events(read), read[-1].heads[-1:]
    first, second = (event.place.block for event in (happened[len(happened) // 4], happened[len(happened) // 2]))
    parts = [tuple(e for e in happened if a < e.place.block <= b) for a, b in ((0, 1), (1, first), (first, second))]
    for part in parts[:2]:
        store.apply(Changes(None, part, heads, complete=False))
    some = statements(store, partial(store.apply, Changes(None, parts[2], heads, complete=False)))
    rest = tuple(event for event in happened if event.place.block > second)
    assert len(rest) > 1.5 * len(parts[2])
    assert statements(store, partial(store.apply, Changes(None, rest, heads, complete=True))) <= some + 2


def test_what_each_round_asks_for_is_known_until_it_changes(store: Store, read: list[Changes]) -> None:
    """Blocks by a look at the chain, and signers by whatever an operator says; neither asks the database again."""
    for changes in read:
        store.apply(changes)
    queries, operator = Queries(store), CROWD.operator(3)
    assert queries.signer_of(operator) == CROWD.signer(3).address
    heads = store.heads()
    assert heads[-1].number == CROWD.head
    known = (store.heads, partial(queries.signer_of, operator), partial(queries.signer_of, CROWD.operator(4)))
    assert [statements(store, look) for look in known] == [0, 0, 0]
    (joined,) = (e for e in events(read) if isinstance(e, SignerSet) and e.operator == operator)
    head = Head(CROWD.head + 1, b"n" * 32)
    other = replace(joined, place=replace(joined.place, block=head.number), signer=CROWD.signer(4).address)
    store.apply(Changes(None, (other,), (head,), complete=True))
    assert (queries.signer_of(operator), store.heads()) == (other.signer, [*heads, head][-HEADS:])
    store.apply(Changes(CROWD.head, (), (), complete=True))
    assert (queries.signer_of(operator), store.heads()[-1]) == (joined.signer, heads[-1])


def test_a_node_is_asked_for_more_while_the_last_is_written_down(
    store: Store, read: list[Changes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be written is asked for again, and what was asked for behind it is not taken."""
    with served(CROWD, MOST) as network:
        reader, asked, applied = Reader(network), list[int](), list[Changes]()
        changes, apply = reader.history.changes, store.apply

        def ask(known: Sequence[Head] = (), *, calls: bool = False) -> Changes:
            asked.append(len(known))
            return changes(known, calls=calls)

        def write(news: Changes, sent: Mapping[bytes, Sent] | None = None) -> None:
            until(lambda: news.complete or len(asked) > len(applied) + 1)
            applied.append(news)
            if len(applied) == 2:
                raise DBAPIError("INSERT", None, OSError("no room"))
            apply(news, sent)

        monkeypatch.setattr(reader.history, "changes", ask)
        monkeypatch.setattr(store, "apply", write)
        daemon = Daemon(reader, store, Metrics(Act, Verdict), None, poll=60)
        with pytest.raises(DBAPIError):
            daemon.turn()
        daemon.turn()
        daemon.stop()
    assert applied[1] == applied[2]
    assert len(asked) == len(applied) + 1  # the one behind what failed
    assert [event for news in (applied[0], *applied[2:]) for event in news.events] == events(read)


def test_what_is_known_goes_on_with_the_last_events_and_is_not_read_again(store: Store, read: list[Changes]) -> None:
    asked: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        asked.append(statement)

    listen(store.engine, "before_cursor_execute", note)
    for changes in read:
        store.apply(changes)
    remove(store.engine, "before_cursor_execute", note)
    of_tasks = [one for one in asked if one.startswith("SELECT") and "FROM events" in one]
    assert len(of_tasks) <= 1  # those of operators, when they joined
    fresh = Store("sqlite://", CROWD.deployment)
    try:
        fresh.apply(Changes(None, tuple(events(read)), read[-1].heads, complete=True))
        some = [CROWD.uuid(task).hex() for task in range(0, CROWD.tasks, 7)]
        assert [store.task(task) for task in some] == [fresh.task(task) for task in some]
    finally:
        fresh.close()


def test_counts_and_what_operators_did_of_late_are_those_of_the_rows(store: Store, read: list[Changes]) -> None:
    """Also after a reorganisation has taken half of it back."""
    for changes in read:
        store.apply(changes)
    half = CROWD.head // 2
    for changes in (Changes(None, (), (), complete=True), Changes(half, (), (Head(half, b"h" * 32),), complete=True)):
        store.apply(changes)
        queries = Queries(store)
        with store.session() as session:
            rows = session.exec(select(TaskRow)).all()
        states = Counter(row.state for row in rows)
        assert {state: count for state, count in queries.counts().items() if count} == states
        newest = sorted(rows, key=lambda row: (row.posted_block, row.posted_index), reverse=True)
        for view in queries.operators():
            own = [row for row in newest if row.executor == view.row.operator]
            assert view.executed == Counter(row.state for row in own)
            assert view.paid == sum(row.paid_gwei or 0 for row in own) * 10**9
            lives = [life for row in own[:RECENT] if (life := store.task(row.task)) is not None]
            assert view.accepted == Recent.of((str(v.price), v.accepted_at or 0, v.committed_at) for v in lives)
            assert queries.operator(view.row.operator) == view
