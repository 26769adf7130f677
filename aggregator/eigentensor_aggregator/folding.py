"""Tasks in the database: lives that are folded from events, and the rows that lists, counts and charts are made of."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import bindparam, insert, update
from sqlmodel import Session, SQLModel, col, delete, select

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
from eigentensor_aggregator.database import chunks
from eigentensor_aggregator.tables import GameRow, TallyRow, TaskRow

_place = attrgetter("place")
# Tables, not objects of the session: there may be hundreds of thousands of rows.
_TASKS, _GAMES, _TALLIES = (SQLModel.metadata.tables[str(of.__tablename__)] for of in (TaskRow, GameRow, TallyRow))
_MORE = (
    update(_TALLIES)
    .where(_TALLIES.c.executor == bindparam("who"), _TALLIES.c.state == bindparam("of"))
    .values(tasks=_TALLIES.c.tasks + bindparam("n"), paid_gwei=_TALLIES.c.paid_gwei + bindparam("gwei"))
)
#: Executor and state of tasks that are counted together.
Key = tuple[str, str]


class Counted(NamedTuple):
    """What a task adds to the counts: under which key, and what its executor was paid in gwei."""

    key: Key
    paid: int


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
    counted = _counted(session, lives)
    for names in chunks(lives):
        # All at once and first: after a reorganisation a game's number may be that of another task's game.
        session.execute(delete(GameRow).where(col(GameRow.task).in_(names)))
        session.execute(delete(TaskRow).where(col(TaskRow.task).in_(names)))
    present = [life for life in lives.values() if life is not None]
    rows = [_task_row(life, parameters) for life in present]
    games = [row for life in present for row in _game_rows(life)]
    for table, values in ((_TASKS, rows), (_GAMES, games)):
        if values:
            session.execute(insert(table), values)
    now = [Counted((row["executor"] or "", row["state"]), row["paid_gwei"] or 0) for row in rows]
    _tally(session, counted, now)
    return {executor for (executor, _), _ in [*counted, *now] if executor}


def _seed_blocks(happened: Iterable[Happening], parameters: Parameters) -> set[int]:
    committed = (event.place.block for event in happened if isinstance(event, Committed))
    return {economics.seed_block(block, parameters.lag, parameters.grid) for block in committed}


# ---- Counts ----


def _counted(session: Session, tasks: Iterable[str]) -> list[Counted]:
    """What the rows of these tasks have added to the counts."""
    columns = select(TaskRow.executor, TaskRow.state, TaskRow.paid_gwei)
    return [
        Counted((executor or "", state), paid or 0)
        for names in chunks(tasks)
        for executor, state, paid in session.exec(columns.where(col(TaskRow.task).in_(names))).all()
    ]


def _tally(session: Session, before: Iterable[Counted], now: Iterable[Counted]) -> None:
    """Moves what tasks add to the counts from where it was to where it is."""
    tasks, paid = Counter[Key](), Counter[Key]()
    for sign, those in ((-1, before), (1, now)):
        for key, gwei in those:
            tasks[key] += sign
            paid[key] += sign * gwei
    changed = {key for key in tasks if tasks[key] or paid[key]}
    executors = {executor for executor, _ in changed}
    known: set[Key] = set()
    for names in chunks(executors):
        rows = session.exec(select(TallyRow.executor, TallyRow.state).where(col(TallyRow.executor).in_(names))).all()
        known.update((executor, state) for executor, state in rows)
    new = [_tally_row(key, tasks[key], paid[key]) for key in sorted(changed - known)]
    more = [{"who": who, "of": of, "n": tasks[who, of], "gwei": paid[who, of]} for who, of in sorted(changed & known)]
    if new:
        session.execute(insert(_TALLIES), new)
    if more:
        session.connection().execute(_MORE, more)


def _tally_row(key: Key, tasks: int, paid: int) -> dict[str, Any]:
    return {"executor": key[0], "state": key[1], "tasks": tasks, "paid_gwei": paid}


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
