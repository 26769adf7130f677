"""What a signed transaction tells the market to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
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
from eigentensor.chain.transactions import Transaction, read_transaction
from eigentensor.task import Order


@dataclass(frozen=True, slots=True)
class Call:
    """A message: the function's name, and its arguments by name; structs are tuples in Solidity's order."""

    name: str
    arguments: Mapping[str, Any]


def call_of(transaction: Transaction) -> Call | None:
    """The message of a transaction, if it is one that markets take."""
    known = functions().get(transaction.data[:4])
    if known is None:
        return None
    name, types, names = known
    rest = transaction.data[4:]
    if "bytes[]" in types and not _is_flat(rest):
        return None
    try:
        values = decode(types, rest)
        # One text for one message: what a decoder passes over would be signed, and not be seen.
        return Call(name, dict(zip(names, values, strict=True))) if encode(types, values) == rest else None
    except (DecodingError, OverflowError, ValueError):
        return None


def pairs_of(call: Call, one: tuple[str, ...], many: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The arguments of a message by these names, or those of each task in a message about many; none of any other."""
    names = many if call.name.endswith("Many") else one
    if not call.arguments.keys() >= set(names):
        return []
    values = [call.arguments[name] for name in names]
    return list(zip(*values, strict=False)) if call.name.endswith("Many") else [tuple(values)]


def tasks_of(raw: bytes) -> int:
    """How many tasks a signed transaction tells a market about. Raises ChainError where it is none."""
    call = call_of(read_transaction(raw))
    given = call.arguments if call is not None else {}
    return max((len(given[name]) for name in ("orders", "tasks") if name in given), default=1)


def is_order(struct: Any, order: Order) -> bool:
    """Whether a decoded struct is the order; the decoder writes addresses in small letters."""
    client, *terms = order.as_tuple()
    return bool(struct == (client.lower(), *terms))


def _is_flat(rest: bytes) -> bool:
    """Whether no two elements of the `bytes[]`, the second argument, are the same bytes: a decoder copies each, and a
    stranger's thousand may all point to one large one."""

    def word(at: int) -> int:
        return int.from_bytes(rest[at : at + 32], "big")

    start = word(32)
    count = min(word(start), len(rest) // 32)
    heads = [word(start + 32 * number) for number in range(1, count + 1)]
    return all(one < other for one, other in pairwise(heads))


@cache
def functions() -> dict[bytes, tuple[str, list[str], list[str]]]:
    return {
        function_signature_to_4byte_selector(abi_to_signature(entry)): (
            entry["name"],
            get_abi_input_types(entry),
            [str(name) for name in get_abi_input_names(entry)],
        )
        for entry in abi("TaskMarket")
        if entry["type"] == "function"
    }
