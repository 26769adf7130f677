"""What a signed transaction tells the market to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.abi import (
    abi_to_signature,
    function_signature_to_4byte_selector,
    get_abi_input_names,
    get_abi_input_types,
)

from eigentensor.chain.contracts import abi
from eigentensor.chain.transactions import Transaction

MANY = 64  # orders in one transaction: with more it does not fit into a block


@dataclass(frozen=True, slots=True)
class Call:
    """A message: the function's name, and its arguments by name; structs are tuples in Solidity's order."""

    name: str
    arguments: Mapping[str, Any]


def call_of(transaction: Transaction, market: str) -> Call | None:
    """The message of a transaction to the market itself; None where it went through another contract."""
    known = _functions().get(transaction.data[:4])
    if transaction.to != market or known is None:
        return None
    name, types, names = known
    rest = transaction.data[4:]
    try:
        values = decode(types, rest)
        # One text for one message: what a decoder passes over would be signed, and not be seen.
        return Call(name, dict(zip(names, values, strict=True))) if encode(types, values) == rest else None
    except (DecodingError, OverflowError, ValueError):
        return None


@cache
def _functions() -> dict[bytes, tuple[str, list[str], list[str]]]:
    return {
        function_signature_to_4byte_selector(abi_to_signature(entry)): (
            entry["name"],
            get_abi_input_types(entry),
            [str(name) for name in get_abi_input_names(entry)],
        )
        for entry in abi("TaskMarket")
        if entry["type"] == "function"
    }
