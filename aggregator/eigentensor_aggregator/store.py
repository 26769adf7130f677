"""The database: events of the chain, and what they add up to."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from sqlmodel import Session, SQLModel, col, delete, select

from eigentensor import economics
from eigentensor.chain import Changes, Deployment, Head
from eigentensor.channel.life import BatchLife
from eigentensor.errors import ConfigError
from eigentensor.task import Event, Life, OperatorJoined, OperatorLeft, SeatsSet, SignerSet
from eigentensor_aggregator import events, folding, pools, recent
from eigentensor_aggregator.database import add_rows, chunks, connect
from eigentensor_aggregator.events import Sent, of_batch
from eigentensor_aggregator.lead import Lead
from eigentensor_aggregator.recent import Recent
from eigentensor_aggregator.tables import BatchRow, Block, EventRow, Meta, OperatorRow, TaskRow

#: Blocks that are remembered: a deeper reorganisation makes the aggregator read everything again.
HEADS = 512
#: Tasks that are kept in memory: those that changed or were asked for last.
MOST = 8192
_FOLDED = 2048  # tasks that are folded at a time
_BLOCKS, _OPERATORS = (SQLModel.metadata.tables[str(of.__tablename__)] for of in (Block, OperatorRow))
_VERSION = "version of what is known when a session begins"


T = TypeVar("T")


class PooledBatch(NamedTuple):
    """A batch with its pool."""

    pool: bytes
    life: BatchLife


class Known(Generic[T]):
    """What tasks or batches add up to, kept in memory until something happens to them: lists are asked for more often
    than that.

    For any threads. Whoever reads the database notes `version` before, and gives it when keeping what was read: what
    was read before a change is not kept after it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lives: OrderedDict[str, T] = OrderedDict()
        self._changing: frozenset[str] = frozenset()
        self._lock = Lock()
        self.version = 0

    def of(self, names: Iterable[str]) -> dict[str, T]:
        """Those that are known."""
        with self._lock:
            lives = {name: life for name in names if (life := self._lives.get(name)) is not None}
            for name in lives:
                self._lives.move_to_end(name)
        return lives

    def keep(self, lives: Mapping[str, T], version: int) -> None:
        """Keeps what was read while `version` was the present one; forgets those asked for longest ago."""
        with self._lock:
            if version != self.version:
                return
            self._lives.update((name, life) for name, life in lives.items() if name not in self._changing)
            while len(self._lives) > self._most:
                self._lives.popitem(last=False)

    def clear(self) -> None:
        """Called when any of them may have changed."""
        with self._lock:
            self.version += 1
            self._lives.clear()

    def hold(self, changing: Collection[str]) -> None:
        """Called before a change of these is committed: until `forget` they are read, and not kept. What else is
        in the database by then would not agree with what was known of them."""
        with self._lock:
            self._changing = frozenset(changing)
            for subject in changing:
                self._lives.pop(subject, None)

    def forget(self, changed: Collection[str]) -> None:
        """Called when a change of these, or of anything else that lists tell of, is committed."""
        with self._lock:
            self.version += bool(changed)
            self._changing = frozenset()
            for subject in changed:
                self._lives.pop(subject, None)


class Store:
    """One market's database. Every change of the chain is applied as a whole or not at all, by the process that has the
    `lead`; others `follow`."""

    def __init__(self, url: str, deployment: Deployment) -> None:
        """Creates or upgrades the tables. Raises ConfigError if the database is of another market."""
        self.parameters: economics.Parameters = deployment.parameters
        self.engine = connect(url)
        self._known: Known[Life] = Known()
        self._batches: Known[PooledBatch] = Known()
        self._recent: Known[Recent] = Known()
        self.lead = Lead(self.engine)
        self._followed: Head | None = None
        self._heads: list[Head] | None = None
        self.operators_version = 0  #: another one whenever something happened to operators themselves
        self._claim(f"{deployment.chain_id}:{deployment.task_market}", url)

    def close(self) -> None:
        """Ends all connections, and the lead."""
        self.lead.release()
        self.engine.dispose()

    def is_well(self) -> bool:
        """Whether the database answers, and is the one that was claimed. Raises what its driver does."""
        if self.engine.dialect.name == "sqlite" and not Path(self.engine.url.database or "").exists():
            return False  # a connection to a file that was removed still answers
        with self.session() as session:
            return session.exec(select(Meta)).first() is not None

    @property
    def _all_known(self) -> "tuple[Known[Any], ...]":
        return self._known, self._batches, self._recent

    @property
    def version(self) -> int:
        """Another one whenever something happened that lists tell of: what was read before may have changed."""
        return self._known.version

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction, committed when the block ends well."""
        with Session(self.engine, expire_on_commit=False, info={_VERSION: self.version}) as session:
            yield session
            session.commit()

    # ---- The chain ----

    def heads(self) -> list[Head]:
        """The blocks that were read last, ascending: in memory until some are read, here or by another process."""
        if self._heads is None:
            with self.session() as session:
                rows = session.exec(select(Block).order_by(col(Block.number).desc()).limit(HEADS)).all()
            self._heads = [Head(row.number, row.hash) for row in reversed(rows)]
        return self._heads

    def follow(self) -> int:
        """The newest block that the process in the lead has read. Where it has moved on, nothing is known any more."""
        with self.session() as session:
            row = session.exec(select(Block).order_by(col(Block.number).desc()).limit(1)).first()
        head = Head(row.number, row.hash) if row else None
        self._heads = None
        if head != self._followed:
            self._followed = head
            self.operators_version += 1
            for known in self._all_known:
                known.clear()
        return head.number if head else 0

    def apply(self, changes: Changes, sent: Mapping[bytes, Sent] | None = None) -> None:
        """Takes over what happened on chain, and takes back what did not. `sent` are the transactions with moves."""
        changed, lives = set[str](), dict[str, Life]()
        try:
            with self.session() as session:
                changed, lives = self._apply(session, changes, sent or {})
                for known in self._all_known:
                    known.hold(changed)
        finally:  # it may be committed, whatever was heard of it
            self.operators_version += any(subject.startswith("0x") for subject in changed)
            for known in self._all_known:
                known.forget(changed)
            if changes.heads or changes.rolled_back_to is not None:
                self._heads = None
        self._known.keep(lives, self.version)  # the next events are probably about them

    def events(self, subject: str) -> list[Event]:
        """Everything that happened to a task or an operator, in order."""
        with self.session() as session:
            return [event for event, _ in events.read(session, [subject])]

    def moves(self, task: str) -> list[tuple[Event, Sent | None]]:
        """What happened to a task, with the senders and the gas of moves."""
        with self.session() as session:
            return events.read(session, [task])

    def _apply(
        self, session: Session, changes: Changes, sent: Mapping[bytes, Sent]
    ) -> tuple[set[str], dict[str, Life]]:
        """What it changes, as subjects of events, and the tasks among them."""
        touched: set[str] = set()
        pooled: set[str] = set()
        if changes.rolled_back_to is not None:
            gone = col(EventRow.block) > changes.rolled_back_to
            touched.update(session.exec(select(EventRow.subject).where(gone)).all())
            session.exec(delete(EventRow).where(gone))
            session.exec(delete(Block).where(col(Block.number) > changes.rolled_back_to))
            pooled |= pools.rebuild(session, self.parameters, touched)
        pooled |= pools.step(session, self.parameters, changes.events)  # by what was known before these
        touched |= events.add(session, changes.events, sent)
        last = changes.heads[-1].number if changes.heads else 0
        heads = {head.number: head.hash for head in changes.heads if head.number >= last - HEADS}
        session.exec(delete(Block).where(col(Block.number).in_(heads)))
        add_rows(session, _BLOCKS, [{"number": number, "hash": digest} for number, digest in heads.items()])
        news = folding.News(changes.events) if changes.rolled_back_to is None else None
        changed, lives = self._fold(session, touched, news)
        session.exec(delete(Block).where(col(Block.number) < last - HEADS))
        return changed | pooled, lives

    def _fold(
        self, session: Session, subjects: Collection[str], news: folding.News | None
    ) -> tuple[set[str], dict[str, Life]]:
        """Makes anew what the events of these subjects add up to: the tasks and operators. `news` are the last of them;
        None where others were taken back."""
        tasks = {subject for subject in subjects if len(subject) == 64}
        operators = {subject for subject in subjects if subject.startswith("0x")}
        seeds = (int(subject) for subject in subjects if subject.isdigit() and len(subject) < 64)
        for blocks in chunks(seeds):
            tasks.update(session.exec(select(TaskRow.task).where(col(TaskRow.seed_block).in_(blocks))).all())
        for accounts in chunks(sorted(operators)):
            _fold_operators(session, accounts)
        changed, present = tasks | operators, dict[str, Life]()
        for names in chunks(sorted(tasks), _FOLDED):
            lives = self._after(session, names, news)
            changed.update(map(_executed_by, folding.write(session, lives, self.parameters)))
            present.update((task, life) for task, life in lives.items() if life is not None)
            for task in list(present)[:-MOST]:
                del present[task]
        return changed, present

    def _after(self, session: Session, tasks: Collection[str], news: folding.News | None) -> dict[str, Life | None]:
        """The tasks as all their events tell them, which are in the database: those that are known, or new, go on with
        the last ones."""
        if news is None:
            return folding.read(session, self.parameters, tasks)
        known: dict[str, Life | None] = {**self._known.of(tasks)}
        others = [task for task in tasks if task not in known]
        older = set(session.exec(select(TaskRow.task).where(col(TaskRow.task).in_(others))).all())
        known.update((task, None) for task in others if task not in older)
        return folding.stepped(known, news, self.parameters) | folding.read(session, self.parameters, older)

    # ---- Tasks ----

    def task(self, task: str) -> Life | None:
        """A task; None as long as its order is not known."""
        with self.session() as session:
            return self._lives(session, [task])[task]

    def late(self, block: int, limit: int = 256) -> list[Life]:
        """Tasks about which the next block after `block` may take a message, those that wait longest first."""
        query = select(TaskRow.task).where(col(TaskRow.wake) <= block + 1, col(TaskRow.sleep) > block)
        with self.session() as session:
            return self.lives(session, session.exec(query.order_by(col(TaskRow.wake)).limit(limit)).all())

    def lives(self, session: Session, tasks: Sequence[str]) -> list[Life]:
        """The tasks in the order of their names here."""
        lives = self._lives(session, tasks)
        return [life for task in tasks if (life := lives[task]) is not None]

    def _lives(self, session: Session, tasks: Sequence[str]) -> Mapping[str, Life | None]:
        known = self._known.of(tasks)
        if not (unknown := set(tasks) - known.keys()):
            return known
        read = folding.read(session, self.parameters, unknown)
        self._known.keep({task: life for task, life in read.items() if life is not None}, session.info[_VERSION])
        return {**known, **read}

    def recent(self, operators: Sequence[str]) -> dict[str, Recent]:
        """For each operator what the newest tasks that it accepted tell; none without any."""
        subjects = {_executed_by(operator): operator for operator in operators}
        known = self._recent.of(subjects)
        if unknown := [operator for subject, operator in subjects.items() if subject not in known]:
            with self.session() as session:
                read = recent.read(session, unknown)
                found = {_executed_by(operator): one for operator, one in read.items() if one is not None}
                self._recent.keep(found, session.info[_VERSION])
            known.update(found)
        return {subjects[subject]: one for subject, one in known.items()}

    # ---- Paid calls ----

    def batch(self, batch: str) -> PooledBatch | None:
        """A batch; None as long as its begin is not known."""
        with self.session() as session:
            return next(iter(self.batches(session, [batch])), None)

    def late_batches(self, block: int, limit: int = 256) -> list[BatchLife]:
        """Batches about which the next block after `block` may take a message, those that wait longest first."""
        query = select(BatchRow.batch).where(col(BatchRow.wake) <= block + 1, col(BatchRow.sleep) > block)
        with self.session() as session:
            names = session.exec(query.order_by(col(BatchRow.wake)).limit(limit)).all()
            return [one.life for one in self.batches(session, names)]

    def batches(self, session: Session, names: Sequence[str]) -> list[PooledBatch]:
        """The batches in the order of their names here."""
        subjects = {name: of_batch(name) for name in names}
        known = self._batches.of(subjects.values())
        unknown = [name for name, subject in subjects.items() if subject not in known]
        if unknown:
            read = pools.read(session, self.parameters, unknown)
            lives = {of_batch(b.hex()): PooledBatch(read.pool_of[b], life) for b, life in read.batches.items()}
            self._batches.keep(lives, session.info[_VERSION])
            known = {**known, **lives}
        return [known[subject] for subject in subjects.values() if subject in known]

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


def _fold_operators(session: Session, operators: Sequence[str]) -> None:
    happened: dict[str, list[Event]] = {operator: [] for operator in operators}
    for event, _ in events.read(session, operators):
        happened[events.subject_of(event)].append(event)
    session.exec(delete(OperatorRow).where(col(OperatorRow.operator).in_(operators)))
    rows = [_operator_row(operator, those) for operator, those in happened.items() if those]
    add_rows(session, _OPERATORS, [row.model_dump() for row in rows])


def _operator_row(operator: str, happened: Iterable[Event]) -> OperatorRow:
    row = OperatorRow(operator=operator)
    for one in happened:
        match one:
            case OperatorJoined() | OperatorLeft():
                row.member = isinstance(one, OperatorJoined)
            case SignerSet():
                row.signer, row.collateral_cap, row.stake_cap = one.signer, str(one.collateral_cap), str(one.stake_cap)
            case SeatsSet():
                row.seats = str(one.seats)
    return row


def _executed_by(operator: str) -> str:
    """Of what an operator did to tasks, beside `changed` subjects."""
    return f"executed by {operator}"
