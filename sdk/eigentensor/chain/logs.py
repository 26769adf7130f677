"""Logs of the market's contracts, decoded into events."""

import re
from collections.abc import Mapping
from dataclasses import fields
from enum import IntEnum
from functools import cache
from typing import Any, get_args

from eigentensor.chain.contracts import Logged, abi, events_of
from eigentensor.task.events import KINDS, Event, Moved, Place

#: The contracts whose events are known.
SOURCES = ("TaskMarket", "ServiceManager", "DisputeGame", "Bounty", "Channels")
_OF_CALLS = ("Channels",)


def decode_log(log: Mapping[str, Any], channels: str = "") -> Event | None:
    """The event of a log of one of the market's contracts, its members as JSON-RPC names them; None for other kinds of
    logs. Only the contract at the address `channels` has events of paid calls, some of which have names and types that
    tasks' have."""
    known = _events(log["address"] == channels)
    entry = known.get(bytes(log["topics"][0])) if log["topics"] else None
    if entry is None:
        return None
    kind, logged = entry
    arguments = logged.values(log["topics"], log["data"])
    place = Place(log["blockNumber"], log["logIndex"], bytes(log["blockHash"]), bytes(log["transactionHash"]))
    if kind is Moved:
        arguments = {"task": arguments["position"]["task"], **arguments}
    event: Event = _build(kind, arguments, place=place)
    return event


def kinds_of(source: str) -> Mapping[str, type[Event]]:
    """The kinds of events of a contract, by name."""
    if source not in _OF_CALLS:
        return KINDS
    from eigentensor.channel import events  # who only reads tasks does not wait for it

    return events.KINDS


@cache
def _events(of_calls: bool) -> dict[bytes, tuple[type[Event], Logged]]:
    """Kinds and events of the contracts by the first topic."""
    return {
        logged.topic: (kinds[name], logged)
        for source in SOURCES
        if (source in _OF_CALLS) is of_calls
        for kinds in (kinds_of(source),)
        for name, logged in events_of(abi(source)).items()
        if name in kinds
    }


def _build(kind: Any, values: Mapping[str, Any], **more: Any) -> Any:
    """A dataclass from a struct or an event, whose fields Solidity spells in its own way."""
    types = {f.name: f.type for f in fields(kind)}
    named = {_snake(name): value for name, value in values.items()}
    return kind(**more, **{name: _plain(types[name], value) for name, value in named.items()})


def _plain(kind: Any, value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, Mapping):
        return _build(kind, value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(get_args(kind)[0], item) for item in value)
    return kind(value) if isinstance(kind, type) and issubclass(kind, IntEnum) else value


def _snake(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()
