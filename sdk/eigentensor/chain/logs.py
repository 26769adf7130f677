"""Logs of the market's contracts, decoded into events."""

import re
from collections.abc import Mapping
from dataclasses import fields
from enum import IntEnum
from functools import cache
from typing import Any, get_args

from eigentensor.chain.contracts import Logged, abi, events_of
from eigentensor.task.events import KINDS, Event, Place

#: The contracts whose events are known.
SOURCES = ("TaskMarket", "ServiceManager", "DisputeGame", "Bounty")


def decode_log(log: Mapping[str, Any]) -> Event | None:
    """The event of a log of one of the market's contracts, its members as JSON-RPC names them; None for other kinds of
    logs."""
    known = _events().get(bytes(log["topics"][0])) if log["topics"] else None
    if known is None:
        return None
    name, logged = known
    arguments = logged.values(log["topics"], log["data"])
    place = Place(log["blockNumber"], log["logIndex"], bytes(log["blockHash"]), bytes(log["transactionHash"]))
    if name == "Moved":
        arguments = {"task": arguments["position"]["task"], **arguments}
    event: Event = _build(KINDS[name], arguments, place=place)
    return event


@cache
def _events() -> dict[bytes, tuple[str, Logged]]:
    """Names and events by the first topic."""
    known = (item for source in SOURCES for item in events_of(abi(source)).items())
    return {logged.topic: (name, logged) for name, logged in known if name in KINDS}


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
