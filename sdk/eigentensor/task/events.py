"""What happened on chain, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from typing import Any, Self, cast, get_args, get_origin

from eigentensor.dispute.position import Position, Reason
from eigentensor.task.order import Order
from eigentensor.task.state import Cause
from eigentensor.wire import Object


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a result that a client wants to see: `tensor` counts outputs (or new states) by name."""

    state: bool
    tensor: int
    index: int


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where in the chain something happened. Places of one fork are ordered."""

    block: int
    index: int
    block_hash: bytes
    transaction: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """What the contracts showed at a place of the chain; ITaskMarket.sol says what each means."""

    place: Place

    def arguments(self) -> dict[str, Any]:
        """The event's own fields as JSON values."""
        return {f.name: _to_json(getattr(self, f.name)) for f in fields(self) if f.name != "place"}

    @classmethod
    def from_arguments(cls, place: Place, arguments: Mapping[str, Any]) -> Self:
        """The inverse of `arguments`."""
        values = {f.name: _from_json(f.type, arguments[f.name]) for f in fields(cls) if f.name != "place"}
        return cls(place, **values)


@dataclass(frozen=True, slots=True)
class TaskEvent(Event):
    """One about a single task."""

    task: bytes


@dataclass(frozen=True, slots=True)
class Posted(TaskEvent):
    client: str
    order: Order


@dataclass(frozen=True, slots=True)
class Cancelled(TaskEvent):
    pass


@dataclass(frozen=True, slots=True)
class Expired(TaskEvent):
    pass


@dataclass(frozen=True, slots=True)
class Accepted(TaskEvent):
    executor: str
    price: int
    collateral: int


@dataclass(frozen=True, slots=True)
class Committed(TaskEvent):
    commitment: bytes


@dataclass(frozen=True, slots=True)
class Seeded(Event):
    seed_block: int
    mix: bytes


@dataclass(frozen=True, slots=True)
class Answered(TaskEvent):
    index: int
    operator: str
    commitment: bytes


@dataclass(frozen=True, slots=True)
class Exposed(TaskEvent):
    slot: int
    caller: str
    amount: int


@dataclass(frozen=True, slots=True)
class Revealed(TaskEvent):
    slot: int
    outputs_root: bytes


@dataclass(frozen=True, slots=True)
class Challenged(TaskEvent):
    game_id: int
    challenger: str
    bond: int


@dataclass(frozen=True, slots=True)
class GameEnded(TaskEvent):
    game_id: int
    challenger: str
    executor_lost: bool


@dataclass(frozen=True, slots=True)
class Demanded(TaskEvent):
    leaves: tuple[Leaf, ...]
    by: int


@dataclass(frozen=True, slots=True)
class Shown(TaskEvent):
    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Failed(TaskEvent):
    refund: int
    penalty: int


@dataclass(frozen=True, slots=True)
class Closed(TaskEvent):
    paid: int
    refund: int


@dataclass(frozen=True, slots=True)
class Convicted(TaskEvent):
    cause: Cause
    winner: str
    refund: int


@dataclass(frozen=True, slots=True)
class Slashed(TaskEvent):
    slash_id: int
    shares: int
    caller: str


@dataclass(frozen=True, slots=True)
class Settled(TaskEvent):
    slot: int
    account: str
    amount: int


@dataclass(frozen=True, slots=True)
class BondReturned(TaskEvent):
    game_id: int
    challenger: str
    amount: int


@dataclass(frozen=True, slots=True)
class Deposited(Event):
    account: str
    payer: str
    amount: int


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    account: str
    to: str
    amount: int


@dataclass(frozen=True, slots=True)
class OperatorJoined(Event):
    operator: str


@dataclass(frozen=True, slots=True)
class OperatorLeft(Event):
    operator: str


@dataclass(frozen=True, slots=True)
class SignerSet(Event):
    operator: str
    signer: str
    collateral_cap: int
    stake_cap: int


@dataclass(frozen=True, slots=True)
class SeatsSet(Event):
    operator: str
    seats: int


@dataclass(frozen=True, slots=True)
class Locked(TaskEvent):
    operator: str
    shares: int
    end: int


@dataclass(frozen=True, slots=True)
class Unlocked(TaskEvent):
    pass


@dataclass(frozen=True, slots=True)
class StakeSlashed(TaskEvent):
    operator: str
    slash_id: int
    shares: int


@dataclass(frozen=True, slots=True)
class Noted(TaskEvent):
    slash_id: int
    amount: int
    beneficiaries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Paid(TaskEvent):
    slash_id: int
    share: int
    burned: int


@dataclass(frozen=True, slots=True)
class Opened(TaskEvent):
    game_id: int
    challenger: str
    position: Position


@dataclass(frozen=True, slots=True)
class Moved(TaskEvent):
    """`position` is that after the move, `data` what the executor published in it."""

    game_id: int
    position: Position
    data: bytes


@dataclass(frozen=True, slots=True)
class Ended(TaskEvent):
    game_id: int
    executor_lost: bool
    reason: Reason


KINDS: Mapping[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Posted, Cancelled, Expired, Accepted, Committed, Seeded, Answered, Exposed, Revealed, Challenged, GameEnded,
        Demanded, Shown, Failed, Closed, Convicted, Slashed, Settled, BondReturned, Deposited, Withdrawn,
        OperatorJoined, OperatorLeft, SignerSet, SeatsSet, Locked, Unlocked, StakeSlashed, Noted, Paid,
        Opened, Moved, Ended,
    )
}  # fmt: skip


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Object):
        return value.to_json()
    if isinstance(value, bool):
        return value
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if is_dataclass(value):
        return {f.name: _to_json(getattr(value, f.name)) for f in fields(value)}
    return value


def _from_json(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Object):
        return cast(Any, kind).from_json(value)
    if kind is bytes:
        return bytes.fromhex(value[2:])
    if get_origin(kind) is tuple:
        return tuple(_from_json(get_args(kind)[0], item) for item in value)
    if is_dataclass(kind):
        return cast(type, kind)(**{f.name: _from_json(f.type, value[f.name]) for f in fields(kind)})
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return kind[value.upper()]
    return int(value) if kind is int else value
