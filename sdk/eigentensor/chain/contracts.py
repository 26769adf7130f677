"""The contracts as Python sees them: their committed ABIs, their functions and events as bytes, there and back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from eth_abi.codec import ABICodec
from eth_abi.decoding import AddressDecoder, BytesDecoder
from eth_abi.encoding import AddressEncoder, BytesEncoder
from eth_abi.exceptions import DecodingError, ValueOutOfBounds
from eth_abi.registry import BaseEquals, registry
from eth_typing import ABI, ABIEvent, ABIFunction
from eth_utils.abi import (
    abi_to_signature,
    collapse_if_tuple,
    event_abi_to_log_topic,
    function_abi_to_4byte_selector,
    get_abi_input_types,
    get_abi_output_types,
)
from eth_utils.address import to_checksum_address

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


@cache
def abi(name: str) -> ABI:
    """The ABI of a contract, as scripts/abi wrote it."""
    value: ABI = json.loads((files("eigentensor.chain") / "abi" / f"{name}.json").read_text())
    return value


class _Checksummed(AddressDecoder):
    decoder_fn = staticmethod(to_checksum_address)


class _Whole(BytesEncoder):
    """Fills no bytes up: a root that is too short is none."""

    def validate_value(self, value: Any) -> None:
        super().validate_value(value)  # type: ignore[no-untyped-call]
        if 8 * len(value) != self.value_bit_size:
            self.invalidate_value(value, exc=ValueOutOfBounds, msg="has too few bytes")


def _codec() -> ABICodec:
    types = registry.copy()  # type: ignore[no-untyped-call]
    types.unregister("address")
    types.register("address", AddressEncoder, _Checksummed, label="address")
    types.unregister("bytes<M>")
    types.register(BaseEquals("bytes", with_sub=True), _Whole, BytesDecoder, label="bytes<M>")  # type: ignore[no-untyped-call]
    return ABICodec(types)


_CODEC = _codec()


@dataclass(frozen=True, slots=True)
class Function:
    """A contract's function as bytes, there and back: its selector, and the types of its arguments and of what it
    returns, as the ABI spells them."""

    selector: bytes
    inputs: Sequence[str]
    outputs: Sequence[str]

    def data(self, arguments: Sequence[Any]) -> bytes:
        """The calldata of a call. Raises EncodingError for arguments of other types."""
        return self.selector + _CODEC.encode(self.inputs, arguments)

    def arguments(self, data: bytes) -> tuple[Any, ...]:
        """The arguments of a call's calldata. Raises ChainError for the calldata of another one, or of none."""
        try:
            if data[:4] != self.selector:
                raise nonsense(f"calldata that begins with 0x{data[:4].hex()} is another message")
            return tuple(_CODEC.decode(self.inputs, data[4:]))
        except DecodingError:
            raise nonsense(f"{len(data)} bytes are no ({', '.join(self.inputs)})") from None

    def values(self, answer: bytes) -> Any:
        """The values returned: one value, or a tuple of several. Raises ChainError."""
        try:
            values = _CODEC.decode(self.outputs, answer)
        except DecodingError:
            raise nonsense(f"{len(answer)} bytes are no ({', '.join(self.outputs)})") from None
        return values[0] if len(values) == 1 else values


def function_of(abi: ABI, name: str) -> Function:
    """The function of an ABI by its name, or by its signature where several have the name."""
    functions: list[ABIFunction] = [entry for entry in abi if entry["type"] == "function"]
    (one,) = (entry for entry in functions if name in (entry["name"], abi_to_signature(entry)))
    return Function(function_abi_to_4byte_selector(one), get_abi_input_types(one), get_abi_output_types(one))


@dataclass(frozen=True, slots=True)
class Logged:
    """A contract's event as logs have it, by its entry in the ABI."""

    entry: ABIEvent

    @property
    def topic(self) -> bytes:
        """The first topic of its logs."""
        return bytes(event_abi_to_log_topic(self.entry))

    def values(self, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
        """What a log says, by the names of the ABI; structs are mappings. Raises ValueError or DecodingError for
        another event's."""
        indexed = [one for one in self.entry["inputs"] if one["indexed"]]
        others = [one for one in self.entry["inputs"] if not one["indexed"]]
        pairs = zip(indexed, topics[1:], strict=True)
        values = {one["name"]: _CODEC.decode([one["type"]], topic)[0] for one, topic in pairs}
        decoded = _CODEC.decode([collapse_if_tuple(one) for one in others], data)
        return values | {one["name"]: _named(one, value) for one, value in zip(others, decoded, strict=True)}


def events_of(abi: ABI) -> dict[str, Logged]:
    """The events of an ABI by their names."""
    events: list[ABIEvent] = [entry for entry in abi if entry["type"] == "event"]
    return {entry["name"]: Logged(entry) for entry in events}


def _named(entry: Mapping[str, Any], value: Any) -> Any:
    """A value of an ABI type, its structs as mappings."""
    kind, bracket, _ = entry["type"].rpartition("[")
    if bracket:
        return tuple(_named({**entry, "type": kind}, item) for item in value)
    if entry["type"] != "tuple":
        return value
    return {one["name"]: _named(one, item) for one, item in zip(entry["components"], value, strict=True)}


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
