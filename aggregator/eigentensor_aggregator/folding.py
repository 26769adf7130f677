"""Tasks in the database: lives that are folded from events, and the rows that lists, counts and charts are made of."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from operator import add, attrgetter, sub
from typing import Any

from sqlalchemy import Table, bindparam, update
from sqlalchemy import select as sa_select
from sqlmodel import Session, SQLModel, col, delete

from eigentensor import economics
from eigentensor.chain.units import GWEI
from eigentensor.economics import Parameters
from eigentensor.task import (
    Closed,
    Committed,
    Convicted,
    Event,
    Exposed,
    Failed,
    Happening,
    Life,
    Paid,
    Seeded,
    TaskEvent,
    due,
    fold,
)
from eigentensor_aggregator import events
from eigentensor_aggregator.database import add_rows, chunks
from eigentensor_aggregator.tables import SPAN, GameRow, SpanRow, TallyRow, TaskRow

_place = attrgetter("place")
# Tables, not objects of the session: there may be hundreds of thousands of rows.
_TASKS, _GAMES, _TALLIES, _SPANS = (
    SQLModel.metadata.tables[str(of.__tablename__)] for of in (TaskRow, GameRow, TallyRow, SpanRow)
)
#: What tasks add to sums: to a row, by its primary key, amounts in the order of its other columns.
Added = tuple[tuple[Any, ...], tuple[int, ...]]


def read(session: Session, parameters: Parameters, tasks: Collection[str]) -> dict[str, Life | None]:
    """Tasks folded from all their events and the records of their seeds; None without an order."""
    happened: dict[str, list[Happening]] = {task: [] for task in tasks}
    for event, _ in events.read(session, tasks):
        if isinstance(event, TaskEvent):
            happened[event.task.hex()].append(event)
    seeds = {task: _seed_blocks(those, parameters) for task, those in happened.items()}
    seeded = defaultdict(list)
    for event, _ in events.read(session, {str(block) for blocks in seeds.values() for block in blocks}):
        if isinstance(event, Seeded):
            seeded[event.seed_block].append(event)
    for task, blocks in seeds.items():
        happened[task] += [event for block in blocks for event in seeded[block]]
    return {task: fold(sorted(those, key=_place), parameters) for task, those in happened.items()}


class News:
    """Events that are new, by the tasks that they are about."""

    def __init__(self, happened: Iterable[Event]) -> None:
        self.seeded: list[Seeded] = []
        self.of_task: dict[str, list[Happening]] = defaultdict(list)
        for event in happened:
            if isinstance(event, TaskEvent):
                self.of_task[event.task.hex()].append(event)
            elif isinstance(event, Seeded):
                self.seeded.append(event)


def stepped(known: Mapping[str, Life | None], news: News, parameters: Parameters) -> dict[str, Life | None]:
    """The same tasks after what is new, without a look at older events: None is a task that had no order."""
    after: dict[str, Life | None] = {}
    for task, life in known.items():
        own = news.of_task.get(task, [])
        blocks = _seed_blocks(own, parameters)
        if life is not None and life.committed_at is not None:
            blocks.add(life.seed_block)
        those = sorted([*own, *(event for event in news.seeded if event.seed_block in blocks)], key=_place)
        after[task] = reduce(Life.step, those, life) if life is not None else fold(those, parameters)
    return after


def write(session: Session, lives: Mapping[str, Life | None], parameters: Parameters) -> set[str]:
    """Makes the rows of these tasks anew; the executors that they have or had."""
    before = list(_rows(session, lives))
    for names in chunks(lives):
        # All at once and first: after a reorganisation a game's number may be that of another task's game.
        session.execute(delete(GameRow).where(col(GameRow.task).in_(names)))
        session.execute(delete(TaskRow).where(col(TaskRow.task).in_(names)))
    present = [life for life in lives.values() if life is not None]
    rows = [_task_row(life, parameters) for life in present]
    games = [row for life in present for row in _game_rows(life)]
    add_rows(session, _TASKS, rows)
    add_rows(session, _GAMES, games)
    for table, adds in ((_TALLIES, _to_tally), (_SPANS, _to_spans)):
        _move(session, table, (one for row in before for one in adds(row)), (one for row in rows for one in adds(row)))
    return {row["executor"] for row in (*before, *rows) if row["executor"]}


def _seed_blocks(happened: Iterable[Happening], parameters: Parameters) -> set[int]:
    committed = (event.place.block for event in happened if isinstance(event, Committed))
    return {economics.seed_block(block, parameters.lag, parameters.grid) for block in committed}


# ---- Sums ----


def _rows(session: Session, tasks: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """What is summed of these tasks, as their rows have it."""
    names = ("executor", "state", "paid_gwei", "posted_block", "price_gwei", "ended_block", "burned_gwei")
    columns = [_TASKS.c[name] for name in names]
    for some in chunks(tasks):
        for row in session.execute(sa_select(*columns).where(_TASKS.c.task.in_(some))).all():
            yield dict(zip(names, row, strict=True))


def _to_tally(row: Mapping[str, Any]) -> Iterator[Added]:
    yield (row["executor"] or "", row["state"]), (1, row["paid_gwei"] or 0)


def _to_spans(row: Mapping[str, Any]) -> Iterator[Added]:
    price, ended = row["price_gwei"], row["ended_block"]
    yield (row["posted_block"] // SPAN,), (1, int(price is not None), price or 0, 0, 0, 0)
    if ended is not None:
        yield (ended // SPAN,), (0, 0, 0, 1, int(row["state"] == "final"), row["burned_gwei"] or 0)


def _move(session: Session, table: Table, before: Iterable[Added], now: Iterable[Added]) -> None:
    """Moves what tasks add to a table of sums from where it was to where it is."""
    keys, sums = list(table.primary_key.columns), [column for column in table.columns if not column.primary_key]
    moved: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(sums))
    for combine, those in ((sub, before), (add, now)):
        for key, amounts in those:
            moved[key] = list(map(combine, moved[key], amounts))
    changed = {key: amounts for key, amounts in moved.items() if any(amounts)}
    known: set[tuple[Any, ...]] = set()
    for some in chunks({key[0] for key in changed}):
        known.update(map(tuple, session.execute(sa_select(*keys).where(keys[0].in_(some))).all()))
    names = table.columns.keys()
    new = [dict(zip(names, (*key, *changed[key]), strict=True)) for key in sorted(changed.keys() - known)]
    add_rows(session, table, new)
    # Names of parameters are not those of columns: SQLAlchemy would take them for what is to be set.
    others = [f"_{name}" for name in names]
    if more := [dict(zip(others, (*key, *changed[key]), strict=True)) for key in sorted(changed.keys() & known)]:
        which = (column == bindparam(f"_{column.name}") for column in keys)
        values = {column.name: column + bindparam(f"_{column.name}") for column in sums}
        session.connection().execute(update(table).where(*which).values(values), more)


# ---- Rows ----


def _task_row(life: Life, parameters: Parameters) -> dict[str, Any]:
    assert life.posted is not None
    wake, sleep = due.awake(life) or (None, None)
    return {
        "task": life.uuid.hex(),
        "state": life.state.name.lower(),
        "client": life.order.client,
        "executor": life.executor,
        "program": life.order.program.hex(),
        "price": None if life.price is None else str(life.price),
        "price_gwei": None if life.price is None else life.price // GWEI,
        "paid_gwei": _gwei(event.paid for event in life.events if isinstance(event, Closed)),
        "burned_gwei": _gwei(_burned(life, event, parameters) for event in life.events),
        "accepted_block": life.accepted_at,
        "committed_block": life.committed_at,
        "ended_block": life.since if life.state.is_terminal else None,
        "posted_block": life.posted.block,
        "posted_index": life.posted.index,
        "outputs_root": life.outputs_root.hex() if life.outputs_root else None,
        "seed_block": None if life.committed_at is None else life.seed_block,
        "wake": wake,
        "sleep": sleep,
    }


def _game_rows(life: Life) -> list[dict[str, Any]]:
    return [
        {
            "game": game.number,
            "task": life.uuid.hex(),
            "executor": life.executor,
            "challenger": game.challenger,
            "state": life.state_of(game),
            "opened_block": game.opened.block,
            "opened_index": game.opened.index,
        }
        for game in life.games.values()
    ]


def _burned(life: Life, event: Happening, parameters: Parameters) -> int:
    """What nobody gets any more of a task, in wei, as far as an event tells: of a conviction more may follow, when no
    verifier is left that could be paid."""
    order = life.order
    match event:
        case Convicted() if life.price is not None and life.collateral is not None:
            return life.collateral - economics.reward(parameters, life.price) - order.verifiers * order.check_fee
        case Failed():
            return event.penalty
        case Exposed():
            return event.amount  # as much as its caller got
        case Paid():
            return event.burned
    return 0


def _gwei(amounts: Iterable[int]) -> int | None:
    """The sum of amounts in wei; None where nothing is to be summed."""
    return sum(amounts) // GWEI or None
