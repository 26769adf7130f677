"""What happened on chain, as values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Self

from eth_utils.abi import event_abi_to_log_topic
from web3 import Web3
from web3.contract.contract import ContractEvent
from web3.types import LogReceipt

from eigentensor.chain.contracts import abi
from eigentensor.chain.order import Order


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where in the chain something happened. Places of one fork are ordered."""

    block: int
    index: int
    block_hash: bytes
    transaction: bytes


@dataclass(frozen=True, slots=True)
class Event:
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
class Revealed(TaskEvent):
    slot: int
    outputs_root: bytes


@dataclass(frozen=True, slots=True)
class Failed(TaskEvent):
    refund: int
    penalty: int


@dataclass(frozen=True, slots=True)
class Closed(TaskEvent):
    paid: int
    refund: int


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


KINDS: Mapping[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Posted, Cancelled, Expired, Accepted, Committed, Revealed, Failed, Closed,
        Deposited, Withdrawn, OperatorJoined, OperatorLeft, SignerSet,
    )
}  # fmt: skip


def decode_log(log: LogReceipt) -> Event | None:
    """The event of a log of the market or the service manager; None for other kinds of logs."""
    known = _events().get(bytes(log["topics"][0])) if log["topics"] else None
    if known is None:
        return None
    arguments = known.process_log(log)["args"]
    place = Place(log["blockNumber"], log["logIndex"], bytes(log["blockHash"]), bytes(log["transactionHash"]))
    return KINDS[known.event_name](place, **{_snake(name): _plain(value) for name, value in arguments.items()})


@cache
def _events() -> dict[bytes, ContractEvent]:
    contracts = [Web3().eth.contract(abi=abi(name)) for name in ("TaskMarket", "ServiceManager")]
    return {
        bytes(event_abi_to_log_topic(entry)): contract.events[entry["name"]]()
        for contract in contracts
        for entry in contract.abi
        if entry["type"] == "event" and entry["name"] in KINDS
    }


def _snake(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, Mapping):
        return Order(**{_snake(name): _plain(field) for name, field in value.items()})
    return value


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, int):
        return str(value)
    return value.to_json() if isinstance(value, Order) else value


def _from_json(kind: Any, value: Any) -> Any:
    if kind is Order:
        return Order.from_json(value)
    if kind is bytes:
        return bytes.fromhex(value[2:])
    return int(value) if kind is int else value
