"""The contracts as Python sees them: their committed ABIs, their functions and events as bytes, there and back."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from eigentensor.abi import Entry, decode, encode, selector_of, signature_of, topic_of, type_of
from eigentensor.chain.answers import nonsense

NAMES = (
    "TaskMarket",
    "Channels",
    "DisputeGame",
    "Referee",
    "ServiceManager",
    "Bounty",
    "AllocationManager",
    "DelegationManager",
    "StrategyManager",
    "Strategy",
    "TestToken",
)
_ABIS = Path(__file__).with_name("abi")


@cache
def abi(name: str) -> Sequence[Entry]:
    """The ABI of a contract, as scripts/abi wrote it."""
    value: Sequence[Entry] = json.loads((_ABIS / f"{name}.json").read_text())
    return value


@dataclass(frozen=True, slots=True)
class Function:
    """A contract's function as bytes, there and back: its selector, and the types of its arguments and of what it
    returns, as the ABI spells them."""

    selector: bytes
    inputs: Sequence[str]
    outputs: Sequence[str]

    def data(self, arguments: Sequence[Any]) -> bytes:
        """The calldata of a call. Raises ValueError for arguments of other types."""
        return self.selector + encode(self.inputs, arguments)

    def arguments(self, data: bytes) -> tuple[Any, ...]:
        """The arguments of a call's calldata. Raises ChainError for the calldata of another one, or of none."""
        try:
            if data[:4] != self.selector:
                raise nonsense(f"calldata that begins with 0x{data[:4].hex()} is another message")
            return decode(self.inputs, data[4:])
        except ValueError:
            raise nonsense(f"{len(data)} bytes are no ({', '.join(self.inputs)})") from None

    def values(self, answer: bytes) -> Any:
        """The values returned: one value, or a tuple of several. Raises ChainError."""
        try:
            values = decode(self.outputs, answer)
        except ValueError:
            raise nonsense(f"{len(answer)} bytes are no ({', '.join(self.outputs)})") from None
        return values[0] if len(values) == 1 else values


def function_of(abi: Iterable[Entry], name: str) -> Function:
    """The function of an ABI by its name, or by its signature where several have the name."""
    functions = [entry for entry in abi if entry["type"] == "function"]
    (one,) = (entry for entry in functions if name in (entry["name"], signature_of(entry)))
    inputs, outputs = ([type_of(value) for value in one[side]] for side in ("inputs", "outputs"))
    return Function(selector_of(one), inputs, outputs)


@dataclass(frozen=True)
class Logged:
    """A contract's event as logs have it, by its entry in the ABI."""

    entry: Entry

    @cached_property
    def topic(self) -> bytes:
        """The first topic of its logs."""
        return topic_of(self.entry)

    def values(self, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
        """What a log says, by the names of the ABI; structs are mappings. Raises ValueError for another
        event's."""
        pairs = zip(self._indexed, topics[1:], strict=True)
        values = {name: decode(types, topic)[0] for (name, types), topic in pairs}
        types, others = self._others
        for (name, shown), value in zip(others, decode(types, data), strict=True):
            values[name] = shown(value)
        return values

    @cached_property
    def _indexed(self) -> list[tuple[str, list[str]]]:
        return [(one["name"], [one["type"]]) for one in self.entry["inputs"] if one["indexed"]]

    @cached_property
    def _others(self) -> tuple[list[str], list[tuple[str, Callable[[Any], Any]]]]:
        others = [one for one in self.entry["inputs"] if not one["indexed"]]
        return [type_of(one) for one in others], [(one["name"], _named(one)) for one in others]


def events_of(abi: Iterable[Entry]) -> dict[str, Logged]:
    """The events of an ABI by their names."""
    return {entry["name"]: Logged(entry) for entry in abi if entry["type"] == "event"}


def _named(entry: Entry) -> Callable[[Any], Any]:
    """What makes mappings of the structs in a value of an ABI type."""
    kind, bracket, _ = entry["type"].rpartition("[")
    if bracket:
        item = _named({**entry, "type": kind})
        return lambda values: tuple(map(item, values))
    if entry["type"] != "tuple":
        return lambda value: value
    members = [(one["name"], _named(one)) for one in entry["components"]]
    return lambda values: {name: of(item) for (name, of), item in zip(members, values, strict=True)}


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract of the market: by which name its ABI is known, and where it is."""

    name: str
    address: str

    def function(self, name: str) -> Function:
        """Its function of that name."""
        return _function(self.name, name)


@cache
def _function(contract: str, name: str) -> Function:
    return function_of(abi(contract), name)
