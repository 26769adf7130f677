"""The database: events of the chain, what they add up to, and the index of blobs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import func
from sqlmodel import Session, col, delete, or_, select

from eigentensor import economics
from eigentensor.chain import (
    Changes,
    Deployment,
    Event,
    Head,
    OperatorJoined,
    OperatorLeft,
    Place,
    SignerSet,
    State,
    TaskEvent,
)
from eigentensor.chain.events import KINDS
from eigentensor.errors import ConfigError
from eigentensor.store import Kind, Names, Pieces
from eigentensor_aggregator.database import connect
from eigentensor_aggregator.machine import TaskView, deadline, step
from eigentensor_aggregator.tables import BlobRow, Block, DeclineRow, EventRow, Meta, OperatorRow, TaskRow

#: Blocks that are remembered: a deeper reorganisation makes the aggregator read everything again.
HEADS = 512
_OPEN = [state.name.lower() for state in State if state is not State.NONE and not state.is_terminal]


class Store:
    """One market's database. Every change of the chain is applied as a whole or not at all."""

    def __init__(self, url: str, deployment: Deployment) -> None:
        """Creates or upgrades the tables. Raises ConfigError if the database is of another market."""
        self._parameters: economics.Parameters = deployment.parameters
        self.engine = connect(url)
        self._claim(f"{deployment.chain_id}:{deployment.task_market}", url)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction, committed when the block ends well."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session
            session.commit()

    # ---- The chain ----

    def heads(self) -> list[Head]:
        """The blocks that were read last, ascending."""
        with self.session() as session:
            rows = session.exec(select(Block).order_by(col(Block.number).desc()).limit(HEADS)).all()
        return [Head(row.number, row.hash) for row in reversed(rows)]

    def apply(self, changes: Changes) -> None:
        """Takes over what happened on chain, and takes back what did not."""
        with self.session() as session:
            touched: set[str] = set()
            if changes.rolled_back_to is not None:
                gone = col(EventRow.block) > changes.rolled_back_to
                touched.update(session.exec(select(EventRow.subject).where(gone)).all())
                session.exec(delete(EventRow).where(gone))
                session.exec(delete(Block).where(col(Block.number) > changes.rolled_back_to))
            for happened in changes.events:
                row = _row(happened)
                session.add(row)
                touched.add(row.subject)
            for head in changes.heads:
                session.merge(Block(number=head.number, hash=head.hash))
            session.flush()
            for subject in touched - {""}:
                self._fold(session, subject)
            if changes.heads:
                session.exec(delete(Block).where(col(Block.number) < changes.heads[-1].number - HEADS))

    def events(self, subject: str) -> list[Event]:
        """Everything that happened to a task or an operator, in order."""
        with self.session() as session:
            return _events(session, [subject])

    def _fold(self, session: Session, subject: str) -> None:
        happened = _events(session, [subject])
        if len(subject) == 64:
            view = fold(happened)
            if view is None:
                session.exec(delete(TaskRow).where(col(TaskRow.task) == subject))
            else:
                session.merge(self._task_row(view))
            return
        if not happened:
            session.exec(delete(OperatorRow).where(col(OperatorRow.operator) == subject))
            return
        row = OperatorRow(operator=subject)
        for one in happened:
            match one:
                case OperatorJoined() | OperatorLeft():
                    row.member = isinstance(one, OperatorJoined)
                case SignerSet():
                    row.signer, row.collateral_cap = one.signer, str(one.collateral_cap)
        session.merge(row)

    def _task_row(self, view: TaskView) -> TaskRow:
        return TaskRow(
            task=view.task.hex(),
            state=view.state.name.lower(),
            client=view.order.client,
            executor=view.executor,
            posted_block=view.posted.block,
            posted_index=view.posted.index,
            deadline=deadline(view, self._parameters),
        )

    # ---- Tasks and operators ----

    def task(self, task: str) -> TaskView | None:
        return fold(self.events(task))

    def tasks(
        self,
        *,
        state: str | None = None,
        client: str | None = None,
        executor: str | None = None,
        before: tuple[int, int] | None = None,
        limit: int = 50,
    ) -> list[TaskView]:
        """Tasks newest first; `before` is the place of the last one of the page before."""
        query = select(TaskRow).order_by(col(TaskRow.posted_block).desc(), col(TaskRow.posted_index).desc())
        for column, value in ((TaskRow.state, state), (TaskRow.client, client), (TaskRow.executor, executor)):
            if value is not None:
                query = query.where(col(column) == value)
        if before is not None:
            block, index = before
            same_block = (col(TaskRow.posted_block) == block) & (col(TaskRow.posted_index) < index)
            query = query.where(or_(col(TaskRow.posted_block) < block, same_block))
        with self.session() as session:
            return _views(session, [row.task for row in session.exec(query.limit(limit)).all()])

    def late(self, block: int, limit: int = 256) -> list[TaskView]:
        """Tasks that wait for something whose last block is `block` or earlier."""
        query = select(TaskRow.task).where(col(TaskRow.state).in_(_OPEN), col(TaskRow.deadline) <= block)
        with self.session() as session:
            return _views(session, session.exec(query.order_by(col(TaskRow.deadline)).limit(limit)).all())

    def counts(self) -> dict[str, int]:
        """How many tasks are in each state."""
        with self.session() as session:
            counted = dict(session.exec(select(TaskRow.state, func.count()).group_by(TaskRow.state)).all())
        return {state.name.lower(): counted.get(state.name.lower(), 0) for state in State if state is not State.NONE}

    def operators(self) -> list[OperatorRow]:
        with self.session() as session:
            return list(session.exec(select(OperatorRow).order_by(OperatorRow.operator)).all())

    def executed(self) -> dict[str, dict[str, int]]:
        """For each operator how many of its tasks are in which state."""
        query = select(TaskRow.executor, TaskRow.state, func.count()).group_by(
            col(TaskRow.executor), col(TaskRow.state)
        )
        result: dict[str, dict[str, int]] = {}
        with self.session() as session:
            for executor, state, count in session.exec(query).all():
                if executor is not None:
                    result.setdefault(executor, {})[state] = count
        return result

    def add_decline(self, row: DeclineRow, limit: int) -> bool:
        """Keeps an operator's last word on a task; False if too many have spoken."""
        with self.session() as session:
            known = session.get(DeclineRow, (row.task, row.operator)) is not None
            count = session.exec(select(func.count()).where(col(DeclineRow.task) == row.task)).one()
            if known or count < limit:
                session.merge(row)
                return True
        return False

    def declines(self, task: str) -> list[DeclineRow]:
        with self.session() as session:
            return list(session.exec(select(DeclineRow).where(col(DeclineRow.task) == task)).all())

    # ---- Blobs ----

    def blob(self, name: str) -> tuple[Names, Pieces] | None:
        """The blob that has this name, by its own root first."""
        query = select(BlobRow).where(or_(col(BlobRow.blob) == name, col(BlobRow.computed) == name))
        with self.session() as session:
            rows = session.exec(query).all()
            row = next((row for row in rows if row.blob == name), rows[0] if rows else None)
            if row is None:
                return None
            roots = tuple(row.pieces[i : i + 32] for i in range(0, len(row.pieces), 32))
            return Names(row.blob, row.size, Kind(row.kind), row.computed), Pieces(row.size, roots)

    def add_blob(self, names: Names, pieces: Pieces) -> None:
        row = BlobRow(
            blob=names.blob,
            size=names.size,
            kind=names.kind.value,
            computed=names.computed,
            pieces=b"".join(pieces.roots),
        )
        with self.session() as session:
            session.merge(row)

    def blobs(self) -> dict[str, int]:
        """All blob roots with their sizes."""
        with self.session() as session:
            return dict(session.exec(select(BlobRow.blob, BlobRow.size)).all())

    def stored_bytes(self) -> int:
        with self.session() as session:
            return int(session.exec(select(func.coalesce(func.sum(BlobRow.size), 0))).one())

    def _claim(self, market: str, url: str) -> None:
        with self.session() as session:
            known = session.get(Meta, "market")
            if known is None:
                session.add(Meta(name="market", value=market))
            elif known.value != market:
                raise ConfigError(
                    f"the database {url} is about the market {known.value}, not {market}",
                    fix="Name another data folder or database, or delete this one: it is rebuilt from the chain.",
                )


def fold(happened: Sequence[Event]) -> TaskView | None:
    view: TaskView | None = None
    for one in happened:
        if isinstance(one, TaskEvent):
            view = step(view, one)
    return view


def _row(happened: Event) -> EventRow:
    place = happened.place
    subject = ""
    if isinstance(happened, TaskEvent):
        subject = happened.task.hex()
    elif isinstance(happened, (OperatorJoined, OperatorLeft, SignerSet)):
        subject = happened.operator
    return EventRow(
        block=place.block,
        log_index=place.index,
        block_hash=place.block_hash,
        transaction=place.transaction,
        name=type(happened).__name__,
        subject=subject,
        arguments=happened.arguments(),
    )


def _views(session: Session, tasks: Sequence[str]) -> list[TaskView]:
    """The tasks in the order of their names here."""
    happened: dict[str, list[Event]] = {task: [] for task in tasks}
    for one in _events(session, tasks):
        assert isinstance(one, TaskEvent)
        happened[one.task.hex()].append(one)
    return [view for task in tasks if (view := fold(happened[task])) is not None]


def _events(session: Session, subjects: Sequence[str]) -> list[Event]:
    """Everything that happened to these tasks or operators, in the order of the chain."""
    query = select(EventRow).where(col(EventRow.subject).in_(subjects))
    rows = session.exec(query.order_by(col(EventRow.block), col(EventRow.log_index))).all()
    return [
        KINDS[row.name].from_arguments(Place(row.block, row.log_index, row.block_hash, row.transaction), row.arguments)
        for row in rows
    ]
