"""Logs of the market's contracts, decoded into events."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, get_args, get_origin

from eigentensor.chain.contracts import Logged, abi, events_of
from eigentensor.dispute.position import Position
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
        arguments = {"task": Position.unpack(arguments["position"]).task, **arguments}
    event: Event = kind(place, **_members(kind, arguments))
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


def _members(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass from a struct or an event, whose fields Solidity spells in its own way."""
    return {name: read(values[spelled]) for spelled, name, read in _plan(kind) if spelled in values}


@cache
def _plan(kind: Any) -> tuple[tuple[str, str, Callable[[Any], Any]], ...]:
    """For each field how Solidity spells it, its name, and what makes it of the ABI's value."""
    return tuple((_camel(field.name), field.name, _reader(field.type)) for field in fields(kind))


def _reader(kind: Any) -> Callable[[Any], Any]:
    if get_origin(kind) is tuple:
        one = _reader(get_args(kind)[0])
        return lambda values: tuple(map(one, values))
    if kind is Position:
        return Position.unpack
    if is_dataclass(kind):
        build: Any = kind
        return lambda values: build(**_members(build, values))
    return kind if isinstance(kind, type) and issubclass(kind, IntEnum) else _same


def _same(value: Any) -> Any:
    return value


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)
