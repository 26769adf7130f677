"""What the aggregator remembers. All of it can be rebuilt from chain and blobs, except the declines."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, LargeBinary
from sqlmodel import Field, SQLModel

#: What lists of tasks are asked for by.
FILTERS = ("state", "client", "executor", "program")
#: What they are asked for by together: each pair has an index, since of one filter there may be as many as tasks.
PAIRS = (("client", "state"), ("executor", "state"), ("program", "state"), ("client", "executor"))

#: Blocks of which what happened is summed.
SPAN = 64


class Block(SQLModel, table=True):
    """A block that was read, newest last: how a reorganisation is noticed."""

    __tablename__ = "blocks"
    number: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class EventRow(SQLModel, table=True):
    """A log of one of the contracts. Everything below is a fold over these."""

    __tablename__ = "events"
    __table_args__ = (Index("events_of_subject", "subject", "block", "log_index"),)
    block: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    log_index: int = Field(primary_key=True)
    block_hash: bytes
    transaction: bytes
    name: str
    subject: str = Field(
        description="the task, operator, seed block, pool, channel or batch that it is about; empty for money"
    )
    arguments: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    sender: str | None = Field(default=None, description="of the transaction; of moves alone, like gas")
    gas: int | None = Field(default=None, sa_column=Column(BigInteger))


class TaskRow(SQLModel, table=True):
    """A task as its events tell it; what lists, charts, the watch over deadlines and the watcher need stands in
    columns. Sums are made of whole gwei: of wei an integer of the database has not room for ten tokens."""

    __tablename__ = "tasks"
    __table_args__ = (
        Index("tasks_by_age", "posted_block", "posted_index"),
        *(Index(f"tasks_by_{name}", name, "posted_block", "posted_index") for name in FILTERS),
        *(Index(f"tasks_by_{a}_{b}", a, b, "posted_block", "posted_index") for a, b in PAIRS),
        Index("tasks_by_end", "ended_block"),
        Index("tasks_awake", "wake", "sleep"),
    )
    task: str = Field(primary_key=True)
    state: str
    client: str
    executor: str | None = None
    program: str
    price: str | None = Field(default=None, description="what was agreed upon, in wei")
    price_gwei: int | None = Field(default=None, sa_column=Column(BigInteger), description="the same to be averaged")
    paid_gwei: int | None = Field(default=None, sa_column=Column(BigInteger), description="what the executor got")
    burned_gwei: int | None = Field(default=None, sa_column=Column(BigInteger), description="as far as events tell it")
    accepted_block: int | None = Field(default=None, sa_column=Column(BigInteger))
    committed_block: int | None = Field(default=None, sa_column=Column(BigInteger))
    ended_block: int | None = Field(
        default=None, sa_column=Column(BigInteger), description="where its state is the last"
    )
    posted_block: int = Field(sa_column=Column(BigInteger, nullable=False))
    posted_index: int
    outputs_root: str | None = None
    seed_block: int | None = Field(default=None, sa_column=Column(BigInteger, index=True))
    wake: int | None = Field(default=None, sa_column=Column(BigInteger), description="first block of what may be due")
    sleep: int | None = Field(default=None, sa_column=Column(BigInteger), description="last block of what may be due")


class TallyRow(SQLModel, table=True):
    """How many tasks of an executor are in a state, and what it was paid for them: counted while they change, since to
    count a million rows takes longer than a page may."""

    __tablename__ = "tallies"
    executor: str = Field(primary_key=True, description="empty: nobody accepted them")
    state: str = Field(primary_key=True)
    tasks: int = Field(sa_column=Column(BigInteger, nullable=False))
    paid_gwei: int = Field(sa_column=Column(BigInteger, nullable=False))


class SpanRow(SQLModel, table=True):
    """What happened to tasks in `SPAN` blocks, for charts of many: counted while they change, too."""

    __tablename__ = "spans"
    span: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False), description="block // SPAN")
    posted: int = Field(sa_column=Column(BigInteger, nullable=False))
    priced: int = Field(sa_column=Column(BigInteger, nullable=False), description="of those posted there")
    price_gwei: int = Field(sa_column=Column(BigInteger, nullable=False), description="of those, together")
    ended: int = Field(sa_column=Column(BigInteger, nullable=False))
    final: int = Field(sa_column=Column(BigInteger, nullable=False), description="of those that ended there")
    burned_gwei: int = Field(sa_column=Column(BigInteger, nullable=False), description="with them")


class GameRow(SQLModel, table=True):
    """A challenge, for lists; what happened in it is in the events of its task."""

    __tablename__ = "games"
    __table_args__ = (Index("games_by_age", "opened_block", "opened_index"),)
    game: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    task: str = Field(index=True)
    executor: str | None
    challenger: str = Field(index=True)
    state: str = Field(index=True, description="open, ended, or idle: its task ended before it did")
    opened_block: int = Field(sa_column=Column(BigInteger, nullable=False))
    opened_index: int


class PoolRow(SQLModel, table=True):
    """An offer of paid calls, as its events and those of its channels and batches tell it."""

    __tablename__ = "pools"
    __table_args__ = (Index("pools_by_age", "offered_block", "offered_index"),)
    pool: str = Field(primary_key=True)
    operator: str = Field(index=True)
    offered_block: int = Field(sa_column=Column(BigInteger, nullable=False))
    offered_index: int
    begun: int = Field(sa_column=Column(BigInteger, nullable=False))
    is_over: bool
    offer: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class ChannelRow(SQLModel, table=True):
    """A channel of a pool."""

    __tablename__ = "channels"
    channel: str = Field(primary_key=True)
    pool: str = Field(index=True)
    client: str = Field(index=True)
    state: str
    opened_block: int = Field(sa_column=Column(BigInteger, nullable=False))
    deposit: str
    paid: str
    count: int = Field(sa_column=Column(BigInteger, nullable=False))
    last: int = Field(sa_column=Column(BigInteger, nullable=False))
    deal: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class BatchRow(SQLModel, table=True):
    """A batch of a pool; what lists and the watch over deadlines need stands in columns."""

    __tablename__ = "batches"
    __table_args__ = (
        Index("batches_by_age", "begun_block", "begun_index"),
        Index("batches_awake", "wake", "sleep"),
    )
    batch: str = Field(primary_key=True)
    pool: str = Field(index=True)
    operator: str = Field(index=True)
    state: str = Field(index=True)
    begun_block: int = Field(sa_column=Column(BigInteger, nullable=False))
    begun_index: int
    seed_block: int | None = Field(default=None, sa_column=Column(BigInteger, index=True))
    wake: int | None = Field(default=None, sa_column=Column(BigInteger), description="first block of what may be due")
    sleep: int | None = Field(default=None, sa_column=Column(BigInteger), description="last block of what may be due")


class LineRow(SQLModel, table=True):
    """A channel in a batch."""

    __tablename__ = "lines"
    batch: str = Field(primary_key=True)
    channel: str = Field(primary_key=True, index=True)


class CallGameRow(SQLModel, table=True):
    """A call that was challenged, by its order's hash: of which batch it is."""

    __tablename__ = "call_games"
    task: str = Field(primary_key=True)
    batch: str = Field(index=True)


class OperatorRow(SQLModel, table=True):
    __tablename__ = "operators"
    operator: str = Field(primary_key=True)
    member: bool = False
    signer: str | None = None
    collateral_cap: str = "0"
    stake_cap: str = "0"
    seats: str = "0"


class DeclineRow(SQLModel, table=True):
    """The last reason that an operator gave for not taking a task."""

    __tablename__ = "declines"
    __table_args__ = (Index("declines_by_operator", "operator", "block"),)
    task: str = Field(primary_key=True)
    operator: str = Field(primary_key=True)
    reason: str
    needed: str
    offered: str
    block: int = Field(sa_column=Column(BigInteger, nullable=False))


class BlobRow(SQLModel, table=True):
    __tablename__ = "blobs"
    blob: str = Field(primary_key=True)
    size: int = Field(sa_column=Column(BigInteger, nullable=False))
    kind: str
    computed: str | None = Field(default=None, index=True)
    pieces: bytes = Field(sa_column=Column(LargeBinary, nullable=False), description="roots of the pieces, one by one")
    since: int = Field(
        sa_column=Column(BigInteger, nullable=False, index=True),
        description="when it was given or named last, in seconds since 1970",
    )
    checked: int = Field(
        sa_column=Column(BigInteger, nullable=False, index=True), description="when its bytes were looked at last"
    )


class LookRow(SQLModel, table=True):
    """What the watcher found out about one claim: a task and the outputs root that its executor revealed."""

    __tablename__ = "looks"
    __table_args__ = (Index("looks_unsaid", "said"), Index("looks_by_verdict", "verdict", "over"))
    task: str = Field(primary_key=True)
    claim: str = Field(primary_key=True)
    verdict: str = Field(description="agrees, differs, or unable")
    words: str = Field(description="the outputs root that it should be, or why it is not known")
    report: str = Field(default="", sa_column_kwargs={"name": "said"}, description="what was said of it last")
    over: bool = Field(default=False, description="whether nothing can come of it any more")


class Meta(SQLModel, table=True):
    """Which market this database is about."""

    __tablename__ = "meta"
    name: str = Field(primary_key=True)
    value: str
