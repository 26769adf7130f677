"""What the gateway's routes stand on."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from fastapi import Path, Query

from eigentensor.chain import Chain, Network
from eigentensor.channel import BatchState
from eigentensor.errors import BlobNotFound, TaskNotFound
from eigentensor.store import parse_name
from eigentensor.task import State
from eigentensor.web.pages.feed import Feed
from eigentensor.web.server import Health
from eigentensor_aggregator.asks import Asks
from eigentensor_aggregator.blobs import Blobs
from eigentensor_aggregator.clock import Clock
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.judgements import Judgements
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.plans import Plans
from eigentensor_aggregator.programs import Programs
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.standings import Standings
from eigentensor_aggregator.store import Store


def _any(states: type[IntEnum]) -> str:
    """A pattern of the names of states."""
    return f"^({'|'.join(state.name.lower() for state in states if state)})$"


Name = Annotated[str, Path(max_length=66, description="64 hex digits, with or without 0x")]
Account = Annotated[str, Path(max_length=42, description="an operator's address")]
Cursor = Annotated[str | None, Query(pattern=r"^\d{1,15}-\d{1,9}$", description="`next` of the page before")]
ADDRESS, NAME = "^0x[0-9a-fA-F]{40}$", "^(0x)?[0-9a-f]{64}$"  #: patterns of what a list may be asked for
InState = Annotated[str | None, Query(pattern=_any(State), description="only those in it")]
InBatchState = Annotated[str | None, Query(pattern=_any(BatchState), description="only those in it")]
Limit = Annotated[int, Query(ge=1, le=200, description="how many stand on a page")]


@dataclass(frozen=True, slots=True)
class Parts:
    """`chain` is the account that pays for messages; None if there is none."""

    settings: Settings
    network: Network
    store: Store
    queries: Queries
    standings: Standings
    asks: Asks
    blobs: Blobs
    daemon: Daemon
    chain: Chain | None
    metrics: Metrics
    health: Health
    feed: Feed
    clock: Clock
    judgements: Judgements
    programs: Programs
    plans: Plans


def place_of(cursor: str | None) -> tuple[int, int] | None:
    """Where the page before ended: block and index."""
    block, _, index = (cursor or "").partition("-")
    return (int(block), int(index)) if cursor else None


def task_name(text: str) -> str:
    """64 hex digits. Raises TaskNotFound for what is no uuid."""
    try:
        return parse_name(text)
    except BlobNotFound:
        raise TaskNotFound(f"{text!r} is not the uuid of a task") from None
