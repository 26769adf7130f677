"""What happened on chain, as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Self, get_args, get_origin

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
        kind: Any = type(self)
        return {name: _to_json(getattr(self, name)) for name, _ in _own(kind)}

    @classmethod
    def from_arguments(cls, place: Place, arguments: Mapping[str, Any]) -> Self:
        """The inverse of `arguments`."""
        kind: Any = cls
        return cls(place, **{name: read(arguments[name]) for name, read in _own(kind)})


@dataclass(frozen=True, slots=True)
class TaskEvent(Event):
    """One about a single task."""

    task: bytes


@dataclass(frozen=True, slots=True)
class Posted(TaskEvent):
    """The order is a task: its escrow left the client's balance."""

    client: str
    order: Order


@dataclass(frozen=True, slots=True)
class Cancelled(TaskEvent):
    """The client took the task back; the escrow is in its balance."""


@dataclass(frozen=True, slots=True)
class Expired(TaskEvent):
    """Nobody accepted the task in time; the escrow is in the client's balance."""


@dataclass(frozen=True, slots=True)
class Accepted(TaskEvent):
    """`collateral` wei of the executor's balance are held for the task, and `price` is fixed."""

    executor: str
    price: int
    collateral: int


@dataclass(frozen=True, slots=True)
class Committed(TaskEvent):
    """The executor is bound to a result, by its hash."""

    commitment: bytes


@dataclass(frozen=True, slots=True)
class Seeded(Event):
    """`mix` is the random value of a block: it decides for all tasks of that seed block."""

    seed_block: int
    mix: bytes


@dataclass(frozen=True, slots=True)
class Answered(TaskEvent):
    """A drawn verifier is bound to a result, by its hash; its bond is held."""

    index: int
    operator: str
    commitment: bytes


@dataclass(frozen=True, slots=True)
class Exposed(TaskEvent):
    """`caller` opened a hidden commitment before its time, and got `amount` wei."""

    slot: int
    caller: str
    amount: int


@dataclass(frozen=True, slots=True)
class Revealed(TaskEvent):
    """What was committed: the executor's in slot 0, that of answer i in slot i + 1."""

    slot: int
    outputs_root: bytes


@dataclass(frozen=True, slots=True)
class Challenged(TaskEvent):
    """A game about the result is open."""

    game_id: int
    challenger: str
    bond: int


@dataclass(frozen=True, slots=True)
class GameEnded(TaskEvent):
    """A game is decided while its task waits for its end."""

    game_id: int
    challenger: str
    executor_lost: bool


@dataclass(frozen=True, slots=True)
class Demanded(TaskEvent):
    """The client wants to see these leaves until block `by`, and prepaid for them."""

    leaves: tuple[Leaf, ...]
    by: int


@dataclass(frozen=True, slots=True)
class Shown(TaskEvent):
    """Leaf `number` of the demand; no data where the outputs have no such leaf."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Failed(TaskEvent):
    """There is no result in time: the escrow went back, less `penalty` the collateral."""

    refund: int
    penalty: int


@dataclass(frozen=True, slots=True)
class Closed(TaskEvent):
    """The task is final: `paid` and the collateral are the executor's, `refund` the client's."""

    paid: int
    refund: int


@dataclass(frozen=True, slots=True)
class Convicted(TaskEvent):
    """The executor lost its collateral; `refund` went to the client's balance."""

    cause: Cause
    winner: str
    refund: int


@dataclass(frozen=True, slots=True)
class Slashed(TaskEvent):
    """`shares` of the executor's stake are slashed; `caller` brought it about."""

    slash_id: int
    shares: int
    caller: str


@dataclass(frozen=True, slots=True)
class Settled(TaskEvent):
    """What an answer got, its bond included, in wei."""

    slot: int
    account: str
    amount: int


@dataclass(frozen=True, slots=True)
class BondReturned(TaskEvent):
    """The bond of a challenger whose game a conviction made idle, or half of it."""

    game_id: int
    challenger: str
    amount: int


@dataclass(frozen=True, slots=True)
class Deposited(Event):
    """`payer` paid `amount` wei into the balance of `account`."""

    account: str
    payer: str
    amount: int


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    """`amount` wei of the balance of `account` were paid out."""

    account: str
    to: str
    amount: int


@dataclass(frozen=True, slots=True)
class OperatorJoined(Event):
    """The operator is a member."""

    operator: str


@dataclass(frozen=True, slots=True)
class OperatorLeft(Event):
    """The operator is no member any more. Its tasks go on, its locks stay."""

    operator: str


@dataclass(frozen=True, slots=True)
class SignerSet(Event):
    """`signer` acts for the operator, within caps in wei and in shares."""

    operator: str
    signer: str
    collateral_cap: int
    stake_cap: int


@dataclass(frozen=True, slots=True)
class SeatsSet(Event):
    """The operator has so many seats now."""

    operator: str
    seats: int


@dataclass(frozen=True, slots=True)
class Locked(TaskEvent):
    """`shares` of the operator's stake are held for the task until block `end`."""

    operator: str
    shares: int
    end: int


@dataclass(frozen=True, slots=True)
class Unlocked(TaskEvent):
    """The stake that was held for the task is free."""


@dataclass(frozen=True, slots=True)
class StakeSlashed(TaskEvent):
    """EigenLayer took `shares` of the operator's stake; no slash where nothing was left."""

    operator: str
    slash_id: int
    shares: int


@dataclass(frozen=True, slots=True)
class Noted(TaskEvent):
    """The slash will bring `amount` wei, for the beneficiaries and for nobody."""

    slash_id: int
    amount: int
    beneficiaries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Paid(TaskEvent):
    """Each beneficiary got `share` wei of a slash."""

    slash_id: int
    share: int
    burned: int


@dataclass(frozen=True, slots=True)
class Opened(TaskEvent):
    """A game begins at a position."""

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
    """A game is over."""

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
    kind: Any = type(value)
    if kind is bytes:
        return "0x" + value.hex()
    if kind is int:
        return str(value)
    if kind is str or kind is bool:
        return value
    if isinstance(value, Object):
        return value.to_json()
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if is_dataclass(value):
        return {name: _to_json(getattr(value, name)) for name, _ in _members(kind)}
    return value


@cache
def _own(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Names and readers of an event's own fields: events are read and written by the million."""
    return tuple(member for member in _members(kind) if member[0] != "place")


@cache
def _members(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((field.name, _reader(field.type)) for field in fields(kind))


def _reader(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of this type out of its JSON."""
    build: Any = kind
    if kind is bytes:
        return lambda value: bytes.fromhex(value[2:])
    if kind is int:
        return int
    if get_origin(kind) is tuple:
        one = _reader(get_args(kind)[0])
        return lambda values: tuple(map(one, values))
    if isinstance(kind, type) and issubclass(kind, Object):
        return build.from_json  # type: ignore[no-any-return]
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return lambda value: kind[value.upper()]
    if is_dataclass(kind):
        members = _members(build)
        return lambda values: build(**{name: read(values[name]) for name, read in members})
    return lambda value: value
