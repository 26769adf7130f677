"""What proves an event without a chain: a transaction whose signature says it, or a part of one that proves itself.

A signature covers the whole of a transaction, so one about 32 tasks is carried whole where its signature counts. An
opening, a header and the signature of an order prove themselves, whoever sent them: nothing else of their transactions
is carried. What nobody signed, as an end or a slash, is the market's word: the chain alone proves it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from eigentensor.abi import decode, encode, selector_of, type_of
from eigentensor.chain.contracts import abi
from eigentensor.chain.transactions import Transaction, read_transaction
from eigentensor.task import (
    Accepted,
    Answered,
    Challenged,
    Committed,
    Demanded,
    Domain,
    Event,
    Exposed,
    Order,
    Posted,
    Revealed,
    Seeded,
    order_signer,
    order_uuid,
)

#: A part of a transaction that proves an event: its fields by name.
Proof = Mapping[str, bytes]

#: The messages that prove an event by their signature.
SIGNED: Mapping[type[Event], tuple[str, ...]] = {
    Posted: ("post", "postMany"),
    Accepted: ("accept", "acceptMany"),
    Committed: ("commit", "commitMany"),
    Answered: ("answer",),
    Challenged: ("challenge",),
    Demanded: ("demand",),
}
#: The fields of the proof of an event.
FIELDS: Mapping[type[Event], tuple[str, ...]] = {
    Posted: ("signature",),
    Seeded: ("header",),
    Revealed: ("salt",),
    Exposed: ("outputs_root", "salt"),
}
#: Events that something else than the chain may prove.
PROVABLE = SIGNED.keys() | FIELDS.keys()


@dataclass(frozen=True, slots=True)
class Call:
    """A message: the function's name, and its arguments by name; structs are tuples in Solidity's order."""

    name: str
    arguments: Mapping[str, Any]


def evidence(order: Order, domain: Domain, event: Event, sent: Transaction) -> tuple[Proof | None, bool]:
    """The proof of an event in the transaction that it came with, and whether the transaction is to be kept whole.

    There is neither where another contract sent the message: what that was sent is not known here.
    """
    call = call_of(sent) if sent.to == domain.market else None
    if call is None:
        return None, False
    find = _FINDERS.get(type(event))
    proof = None if find is None else find(order, domain, event, call)
    signed = call.name in SIGNED.get(type(event), ()) and (not isinstance(event, Posted) or sent.sender == order.client)
    return proof, signed and proof is None


def _signature(order: Order, domain: Domain, event: Posted, call: Call) -> Proof | None:
    pairs = pairs_of(call, ("order", "signature"), ("orders", "signatures"))
    mine = (signature for struct, signature in pairs if is_order(struct, order))
    right = (each for each in mine if order_signer(order, domain, each) == order.client)
    return next(({"signature": each} for each in right), None)


def _header(order: Order, domain: Domain, event: Seeded, call: Call) -> Proof | None:
    return {"header": call.arguments["header"]} if call.name == "seed" else None


def _salt(order: Order, domain: Domain, event: Revealed, call: Call) -> Proof | None:
    opened = order_uuid(order, domain), event.slot, event.outputs_root
    pairs = (
        pairs_of(call, ("order", "opening"), ("orders", "openings")) if call.name in ("reveal", "revealMany") else []
    )
    return next(({"salt": opening[3]} for _, opening in pairs if opening[:3] == opened), None)


def _opening(order: Order, domain: Domain, event: Exposed, call: Call) -> Proof | None:
    if call.name != "expose":
        return None
    _, _, outputs_root, salt = call.arguments["opening"]
    return {"outputs_root": outputs_root, "salt": salt}


_FINDERS: Mapping[type[Event], Callable[[Order, Domain, Any, Call], Proof | None]] = {
    Posted: _signature,
    Seeded: _header,
    Revealed: _salt,
    Exposed: _opening,
}


# ---- What a signed transaction orders the market to do ----


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
    except ValueError:
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
    arguments = call.arguments if call is not None else {}
    return max((len(arguments[name]) for name in ("orders", "tasks") if name in arguments), default=1)


def is_order(struct: Any, order: Order) -> bool:
    """Whether a decoded struct is the order."""
    return bool(struct == order.as_tuple())


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
    """The messages that markets take, by selector: name, and the types and names of the arguments."""
    return {
        selector_of(entry): (
            entry["name"],
            [type_of(one) for one in entry["inputs"]],
            [one["name"] for one in entry["inputs"]],
        )
        for entry in abi("TaskMarket")
        if entry["type"] == "function"
    }
