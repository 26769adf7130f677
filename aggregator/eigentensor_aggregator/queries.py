"""What the gateway lists: tasks, games, operators; pools, channels, batches."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Float, case, cast, func, tuple_
from sqlmodel import col, or_, select

from eigentensor.chain.units import GWEI
from eigentensor.channel import BatchState, ChannelState
from eigentensor.channel.pools import ChannelLife, PoolLife
from eigentensor.task import Life, State
from eigentensor_aggregator.naming import names_of, names_of_batch
from eigentensor_aggregator.pools import channel_of, pool_of
from eigentensor_aggregator.recent import Recent
from eigentensor_aggregator.store import PooledBatch, Store
from eigentensor_aggregator.tables import (
    SPAN,
    BatchRow,
    CallGameRow,
    ChannelRow,
    DeclineRow,
    GameRow,
    LineRow,
    OperatorRow,
    PoolRow,
    SpanRow,
    TallyRow,
    TaskRow,
)

_LIVE = [state.name.lower() for state in BatchState if not state.is_terminal]
_OPEN = ChannelState.OPEN.name.lower()
_NEWEST = select(TaskRow.task).order_by(col(TaskRow.posted_block).desc(), col(TaskRow.posted_index).desc())


class OperatorView(NamedTuple):
    """An operator, how many of its tasks are in which state, what the newest ones that it accepted tell, and what it
    was paid for all in wei, without what is less than a gwei of each."""

    row: OperatorRow
    executed: Mapping[str, int]
    accepted: Recent | None
    paid: int


class PoolView(NamedTuple):
    """A pool, block and index of its offer, and how many of its channels are open."""

    life: PoolLife
    offered: tuple[int, int]
    channels: int


class ChannelView(NamedTuple):
    """A channel, and who executes its calls."""

    life: ChannelLife
    operator: str


class Bucket(NamedTuple):
    """Tasks of some blocks: posted there, of which the mean price in gwei, and ended there, how many of them final, and
    what was burned with them in gwei."""

    posted: int = 0
    price: float | None = None
    ended: int = 0
    final: int = 0
    burned: int = 0


class Queries:
    """Pages and counts over a database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._operators: tuple[int, list[OperatorView]] = -1, []
        self._rows: tuple[int, list[OperatorRow]] = -1, []
        self._signers: tuple[int, dict[str, str | None]] = -1, {}
        self._buckets: tuple[int, dict[tuple[int, int], Mapping[int, Bucket]]] = -1, {}

    def tasks(
        self,
        *,
        state: str | None = None,
        client: str | None = None,
        executor: str | None = None,
        program: str | None = None,
        before: tuple[int, int] | None = None,
        limit: int = 50,
    ) -> list[Life]:
        """Tasks newest first; `before` is the place of the last one of the page before."""
        place = tuple_(col(TaskRow.posted_block), col(TaskRow.posted_index))
        query = _NEWEST
        asked = ((TaskRow.state, state), (TaskRow.client, client), (TaskRow.executor, executor))
        for column, value in (*asked, (TaskRow.program, program)):
            if value is not None:
                query = query.where(col(column) == value)
        if before is not None:
            query = query.where(place < before)
        with self._store.session() as session:
            return self._store.lives(session, session.exec(query.limit(limit)).all())

    def games(
        self,
        *,
        task: str | None = None,
        executor: str | None = None,
        challenger: str | None = None,
        state: str | None = None,
        before: tuple[int, int] | None = None,
        limit: int = 50,
    ) -> list[GameRow]:
        """Games newest first; `before` is the place of the last one of the page before."""
        block, index = col(GameRow.opened_block), col(GameRow.opened_index)
        query = select(GameRow).order_by(block.desc(), index.desc())
        filters = (
            (GameRow.task, task),
            (GameRow.executor, executor),
            (GameRow.challenger, challenger),
            (GameRow.state, state),
        )
        for column, value in filters:
            if value is not None:
                query = query.where(col(column) == value)
        if before is not None:
            query = query.where(or_(block < before[0], (block == before[0]) & (index < before[1])))
        with self._store.session() as session:
            return list(session.exec(query.limit(limit)).all())

    def task_of_game(self, game: int) -> Life | None:
        """The task that a game is about, and that has it; None if no block that was read has it."""
        with self._store.session() as session:
            row = session.get(GameRow, game)
            lives = self._store.lives(session, [row.task]) if row else ()
        return next((life for life in lives if game in life.games), None)  # a reorganisation may come in between

    def operators(self) -> list[OperatorView]:
        """Every operator that ever joined, by address; in memory until something happens."""
        version, known = self._store.version, self._operators
        if known[0] != version:
            self._operators = known = version, self._views(self.operator_rows())
        return known[1]

    def operator_rows(self) -> list[OperatorRow]:
        """All operators that ever joined, by address; in memory until something happens to one."""
        version, known = self._store.operators_version, self._rows
        if known[0] != version:
            with self._store.session() as session:
                rows = list(session.exec(select(OperatorRow).order_by(OperatorRow.operator)).all())
            self._rows = known = version, rows
        return known[1]

    def signer_of(self, operator: str) -> str | None:
        """The account that signs for an operator; None where there is none. In memory, as the rows are."""
        version, known = self._store.operators_version, self._signers
        if known[0] != version:
            self._signers = known = version, {row.operator: row.signer for row in self.operator_rows()}
        return known[1].get(operator)

    def operator(self, operator: str) -> OperatorView | None:
        """One of them; None if no block that was read has it."""
        with self._store.session() as session:
            row = session.get(OperatorRow, operator)
        return None if row is None else self._views([row], TallyRow.executor == operator)[0]

    def _views(self, rows: Sequence[OperatorRow], which: ColumnElement[bool] | bool = True) -> list[OperatorView]:
        executed, paid = self._executed(which)
        recent = self._store.recent([row.operator for row in rows if row.operator in executed])
        return [
            OperatorView(row, executed.get(row.operator, {}), recent.get(row.operator), paid.get(row.operator, 0))
            for row in rows
        ]

    def counts(self) -> dict[str, int]:
        """How many tasks are in each state."""
        with self._store.session() as session:
            counted = session.exec(select(TallyRow.state, func.sum(TallyRow.tasks)).group_by(TallyRow.state)).all()
        known = {state: int(count) for state, count in counted}
        return {state.name.lower(): known.get(state.name.lower(), 0) for state in State if state is not State.NONE}

    def open_games(self) -> int:
        """How many games are being played, about tasks and about paid calls."""
        with self._store.session() as session:
            about_tasks = session.exec(select(func.count()).where(col(GameRow.state) == "open")).one()
            played = select(CallGameRow.batch).join(BatchRow, col(BatchRow.batch) == col(CallGameRow.batch))
            disputed = session.exec(played.where(col(BatchRow.state).in_(_LIVE)).distinct()).all()
            batches = self._store.batches(session, disputed)
        return about_tasks + sum(len(batch.life.open_games) for batch in batches)

    def _executed(self, which: ColumnElement[bool] | bool) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
        """For each operator how many of its tasks are in which state, and what it was paid for all in wei."""
        query = select(TallyRow.executor, TallyRow.state, TallyRow.tasks, TallyRow.paid_gwei)
        counts: dict[str, dict[str, int]] = {}
        paid: dict[str, int] = {}
        with self._store.session() as session:
            for who, of, count, gwei in session.exec(query.where(which, col(TallyRow.tasks) > 0)).all():
                counts.setdefault(who, {})[of] = count
                paid[who] = paid.get(who, 0) + gwei * GWEI
        return counts, paid

    # ---- What is drawn of tasks ----

    def buckets(self, first: int, size: int) -> Mapping[int, Bucket]:
        """What happened from block `first` on, in buckets of `size` blocks by their numbers, empty ones left out; in
        memory until something happens."""
        version, known = self._store.version, self._buckets
        if known[0] != version:
            self._buckets = known = version, {}
        if (first, size) not in known[1]:
            known[1][first, size] = self._counted(first, size)
        return known[1][first, size]

    def _counted(self, first: int, size: int) -> dict[int, Bucket]:
        """Of whole spans by their sums, else by all tasks: the same numbers."""
        return self._summed(first, size) if first % SPAN == size % SPAN == 0 else self._listed(first, size)

    def _summed(self, first: int, size: int) -> dict[int, Bucket]:
        number, which = (col(SpanRow.span) // (size // SPAN)).label("bucket"), col(SpanRow.span) >= first // SPAN
        begun = select(number, func.sum(SpanRow.posted), func.sum(SpanRow.priced), func.sum(SpanRow.price_gwei))
        over = select(number, func.sum(SpanRow.ended), func.sum(SpanRow.final), func.sum(SpanRow.burned_gwei))
        buckets: dict[int, Bucket] = {}
        with self._store.session() as session:
            for at, many, priced, price in session.exec(begun.where(which).group_by("bucket")).all():
                if many:
                    buckets[at] = Bucket(int(many), int(price) / int(priced) if priced else None)
            for at, many, finals, gone in session.exec(over.where(which).group_by("bucket")).all():
                if many:
                    known = buckets.get(at, Bucket())
                    buckets[at] = known._replace(ended=int(many), final=int(finals), burned=int(gone))
        return buckets

    def _listed(self, first: int, size: int) -> dict[int, Bucket]:
        posted, ended = col(TaskRow.posted_block), col(TaskRow.ended_block)
        price, burned = func.avg(cast(TaskRow.price_gwei, Float)), func.sum(TaskRow.burned_gwei)
        final = func.coalesce(func.sum(case((col(TaskRow.state) == "final", 1), else_=0)), 0)
        # By its name: to PostgreSQL the same expression with another parameter is another one.
        begun = select((posted // size).label("bucket"), func.count(), price).where(posted >= first)
        over = select((ended // size).label("bucket"), func.count(), final, burned).where(ended >= first)
        buckets: dict[int, Bucket] = {}
        with self._store.session() as session:
            for number, many, mean in session.exec(begun.group_by("bucket")).all():
                buckets[number] = Bucket(posted=many, price=mean)
            for at, many, finals, gone in session.exec(over.group_by("bucket")).all():
                if at is not None:
                    known = buckets.get(at, Bucket())
                    buckets[at] = known._replace(ended=many, final=int(finals), burned=int(gone or 0))
        return buckets

    def first_block(self) -> int | None:
        """The block of the oldest task; None where there is none."""
        with self._store.session() as session:
            return session.exec(select(func.min(TaskRow.posted_block))).one()

    def declined(self, operator: str, limit: int = 50) -> list[DeclineRow]:
        """The last words of an operator on tasks that it did not take, newest first."""
        query = select(DeclineRow).where(DeclineRow.operator == operator).order_by(col(DeclineRow.block).desc())
        with self._store.session() as session:
            return list(session.exec(query.limit(limit)).all())

    # ---- Paid calls ----

    def pools(
        self, *, operator: str | None = None, before: tuple[int, int] | None = None, limit: int = 50
    ) -> list[PoolView]:
        """Pools newest first; `before` is the place of the last one of the page before."""
        block, index = col(PoolRow.offered_block), col(PoolRow.offered_index)
        query = select(PoolRow).order_by(block.desc(), index.desc())
        if operator is not None:
            query = query.where(PoolRow.operator == operator)
        if before is not None:
            query = query.where(or_(block < before[0], (block == before[0]) & (index < before[1])))
        with self._store.session() as session:
            rows = session.exec(query.limit(limit)).all()
            is_open = col(ChannelRow.state) == _OPEN
            counted = select(ChannelRow.pool, func.count()).where(
                is_open, col(ChannelRow.pool).in_([r.pool for r in rows])
            )
            channels = dict(session.exec(counted.group_by(ChannelRow.pool)).all())
        return [
            PoolView(pool_of(row), (row.offered_block, row.offered_index), channels.get(row.pool, 0)) for row in rows
        ]

    def channel(self, channel: str) -> ChannelView | None:
        """A channel; None if no block that was read has it."""
        with self._store.session() as session:
            row = session.get(ChannelRow, channel)
            return None if row is None else ChannelView(channel_of(row), session.get_one(PoolRow, row.pool).operator)

    def batches(
        self,
        *,
        pool: str | None = None,
        channel: str | None = None,
        operator: str | None = None,
        state: str | None = None,
        before: tuple[int, int] | None = None,
        limit: int = 50,
    ) -> list[PooledBatch]:
        """Batches newest first; `before` is the place of the last one of the page before."""
        block, index = col(BatchRow.begun_block), col(BatchRow.begun_index)
        query = select(BatchRow.batch).order_by(block.desc(), index.desc())
        for column, value in ((BatchRow.pool, pool), (BatchRow.operator, operator), (BatchRow.state, state)):
            if value is not None:
                query = query.where(col(column) == value)
        if channel is not None:
            query = query.where(col(BatchRow.batch).in_(select(LineRow.batch).where(LineRow.channel == channel)))
        if before is not None:
            query = query.where(or_(block < before[0], (block == before[0]) & (index < before[1])))
        with self._store.session() as session:
            return self._store.batches(session, session.exec(query.limit(limit)).all())

    def batch_counts(self) -> dict[str, int]:
        """How many batches are in each state."""
        with self._store.session() as session:
            counted = dict(session.exec(select(BatchRow.state, func.count()).group_by(BatchRow.state)).all())
        names = (state.name.lower() for state in BatchState if state is not BatchState.NONE)
        return {name: counted.get(name, 0) for name in names}

    def open_channels(self) -> int:
        """How many channels are open."""
        with self._store.session() as session:
            return session.exec(select(func.count()).where(col(ChannelRow.state) == _OPEN)).one()

    # ---- Declines ----

    def named(self) -> set[str]:
        """The roots that open tasks and batches name."""
        done = [state.name.lower() for state in State if state.is_terminal]
        with self._store.session() as session:
            tasks = session.exec(select(TaskRow.task).where(col(TaskRow.state).not_in(done))).all()
            batches = session.exec(select(BatchRow.batch).where(col(BatchRow.state).in_(_LIVE))).all()
            lives = self._store.lives(session, tasks)
            disputed = self._store.batches(session, batches)
        return set().union(*map(names_of, lives), *(names_of_batch(batch.life) for batch in disputed))

    def add_decline(self, row: DeclineRow, limit: int) -> bool:
        """Keeps an operator's last word on a task; False if too many have spoken."""
        with self._store.session() as session:
            spoken = session.exec(select(DeclineRow.operator).where(col(DeclineRow.task) == row.task)).all()
            if row.operator in spoken:
                session.merge(row)
            elif len(spoken) < limit:
                session.add(row)
            else:
                return False
        return True

    def declines(self, task: str) -> list[DeclineRow]:
        """The last decline of each operator about a task."""
        with self._store.session() as session:
            return list(session.exec(select(DeclineRow).where(col(DeclineRow.task) == task)).all())
