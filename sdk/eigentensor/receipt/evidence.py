"""What proves an event without a chain: a transaction whose signature says it, or a part of one that proves itself.

A signature covers the whole of a transaction, so one about 32 tasks is carried whole where its signature counts. An
opening, a header and the signature of an order prove themselves, whoever sent them: nothing else of their transactions
is carried. What nobody signed, as an end or a slash, is the market's word: the chain alone proves it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from eigentensor.chain.transactions import Transaction
from eigentensor.receipt.messages import Call, call_of, is_order, pairs_of
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


def evidence(order: Order, domain: Domain, event: Event, sent: Transaction) -> tuple[Proof | None, bool]:
    """The proof of an event in the transaction that it came with, and whether the transaction is to be kept whole.

    There is neither where another contract told the market: what that was told is not known here.
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
    said = order_uuid(order, domain), event.slot, event.outputs_root
    pairs = (
        pairs_of(call, ("order", "opening"), ("orders", "openings")) if call.name in ("reveal", "revealMany") else []
    )
    return next(({"salt": opening[3]} for _, opening in pairs if opening[:3] == said), None)


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
