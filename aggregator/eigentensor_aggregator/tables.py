"""What the aggregator remembers. All of it can be rebuilt from chain and blobs, except the declines."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, LargeBinary
from sqlmodel import Field, SQLModel


class Block(SQLModel, table=True):
    """A block that was read, newest last: how a reorganisation is noticed."""

    __tablename__ = "blocks"
    number: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class EventRow(SQLModel, table=True):
    """A log of the market or the service manager. Everything below is a fold over these."""

    __tablename__ = "events"
    __table_args__ = (Index("events_of_subject", "subject", "block", "log_index"),)
    block: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    log_index: int = Field(primary_key=True)
    block_hash: bytes
    transaction: bytes
    name: str
    subject: str = Field(description="the task or the operator that it is about; empty for money")
    arguments: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class TaskRow(SQLModel, table=True):
    """A task as its events tell it; what lists and the watch over deadlines need stands in columns."""

    __tablename__ = "tasks"
    __table_args__ = (
        Index("tasks_by_age", "posted_block", "posted_index"),
        Index("tasks_by_deadline", "state", "deadline"),
    )
    task: str = Field(primary_key=True)
    state: str
    client: str = Field(index=True)
    executor: str | None = Field(default=None, index=True)
    posted_block: int = Field(sa_column=Column(BigInteger, nullable=False))
    posted_index: int
    deadline: int | None = Field(default=None, sa_column=Column(BigInteger))


class OperatorRow(SQLModel, table=True):
    __tablename__ = "operators"
    operator: str = Field(primary_key=True)
    member: bool = False
    signer: str | None = None
    collateral_cap: str = "0"


class DeclineRow(SQLModel, table=True):
    """The last reason that an operator gave for not taking a task."""

    __tablename__ = "declines"
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


class Meta(SQLModel, table=True):
    """Which market this database is about."""

    __tablename__ = "meta"
    name: str = Field(primary_key=True)
    value: str
