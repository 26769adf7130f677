"""What a receipt proves by itself, without a network: signatures, hashes, and the market's formulas."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rlp
from eth_hash.backends.pysha3 import keccak256 as keccak

from eigentensor import economics
from eigentensor.chain import (
    Accepted,
    Answered,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Domain,
    Event,
    Posted,
    Revealed,
    Seeded,
    commitment,
    order_signer,
)
from eigentensor.chain.transactions import Transaction
from eigentensor.errors import WrongReceipt
from eigentensor.receipt.messages import Call, call_of
from eigentensor.receipt.model import Receipt
from eigentensor.store.tensors import bindings_root

_NUMBER, _MIX = 8, 13  # fields of a header


@dataclass(frozen=True, slots=True)
class Proved:
    """One line of what a receipt proves. `by` is "signature", "hash" or "formula"; "chain" is what a chain must say."""

    by: str
    what: str

    def to_json(self) -> dict[str, str]:
        return {"by": self.by, "what": self.what}


def prove(receipt: Receipt) -> list[Proved]:
    """Every line that follows from signatures and hashes in the receipt, and those that are left to the chain.

    Raises WrongReceipt for the first that does not hold.
    """
    return [
        Proved("hash", f"task {receipt.task} is the hash of the order, on chain {receipt.market.domain.chain_id}"),
        *_Proof(receipt).lines(),
        *_formulas(receipt),
    ]


def outputs_of(receipt: Receipt, path: Path) -> Proved:
    """Holds a safetensors file to the outputs that the receipt is about. Raises WrongReceipt, TensorFileError."""
    if receipt.parts is None:
        raise WrongReceipt("result.outputs", "the receipt does not know the root of the outputs by themselves")
    if (root := bindings_root(path)) != receipt.parts[0]:
        raise WrongReceipt("result.outputs", f"{path.name} has the root 0x{root.hex()}, the result has another")
    return Proved("hash", f"{path.name} holds the outputs that the executor revealed")


class _Proof:
    """Each event, and what the transaction that brought it about says of it."""

    def __init__(self, receipt: Receipt) -> None:
        self.receipt = receipt
        self.told = receipt.told
        self.domain: Domain = receipt.market.domain
        client, *terms = receipt.order.as_tuple()
        self.order = (client.lower(), *terms)  # as the ABI's decoder writes addresses
        self.hidden = {0: (self.told.executor, self.told.commitment)}
        self.hidden |= {a.index + 1: (a.operator, a.commitment) for a in self.told.answers}

    def lines(self) -> Iterator[Proved]:
        known = {event.place.transaction for event in self.receipt.events}
        for number, transaction in enumerate(self.receipt.signed.values()):
            where = f"transactions[{number}]"
            if transaction.hash not in known:
                raise WrongReceipt(where, "no event came with it")
            if transaction.chain_id not in (None, self.domain.chain_id):
                raise WrongReceipt(where, f"it is signed for chain {transaction.chain_id}")
        for number, event in enumerate(self.receipt.events):
            rule = _RULES.get(type(event))
            if rule is not None:
                yield self._line(f"events[{number}]", event, *rule)

    def _line(self, where: str, event: Event, names: tuple[str, ...], holds: "Rule", what: str) -> Proved:
        transaction = self.receipt.signed.get(event.place.transaction)
        words = what.format(event=event)
        if transaction is None:
            return Proved("chain", f"{words}: its transaction is of a type that this version does not read")
        call = call_of(transaction, self.domain.market)
        if call is None or call.name not in names:
            if transaction.to == self.domain.market:
                raise WrongReceipt(where, f"its transaction does not say it: {call.name if call else 'no message'}")
            return Proved("chain", f"{words}: sent through contract {transaction.to}")
        if (said := holds(self, event, call, transaction)) is None:
            raise WrongReceipt(where, f"its transaction says otherwise: {call.name} by {transaction.sender}")
        return Proved("signature", f"{words}: {said}")

    # ---- What each message must say ----

    def posted(self, event: Event, call: Call, sent: Transaction) -> str | None:
        pairs = _pairs(call, ("order", "signature"), ("orders", "signatures"))
        signatures = [signature for order, signature in pairs if order == self.order]
        client = self.receipt.order.client
        if not signatures:
            return None
        if sent.sender == client:
            return f"signed by the client {client}"
        if any(order_signer(self.receipt.order, self.domain, signature) == client for signature in signatures):
            return f"the order is signed by the client {client}, sent by {sent.sender}"
        return f"sent by {sent.sender}; the chain says whether contract {client} agreed" if any(signatures) else None

    def accepted(self, event: Accepted, call: Call, sent: Transaction) -> str | None:
        orders = [order for (order,) in _pairs(call, ("order",), ("orders",))]
        mine = self.order in orders and _same(call.arguments["operator"], event.executor)
        return f"signed by {self._whose(sent, event.executor)}" if mine else None

    def committed(self, event: Committed, call: Call, sent: Transaction) -> str | None:
        said = (self.receipt.uuid, event.commitment) in _pairs(call, ("task", "commitment"), ("tasks", "commitments"))
        mine = said and _same(call.arguments["operator"], self.told.executor)
        return f"signed by {self._whose(sent, self.told.executor)}" if mine else None

    def answered(self, event: Answered, call: Call, sent: Transaction) -> str | None:
        said = call.arguments
        mine = _same(said["operator"], event.operator) and said["order"] == self.order
        mine = mine and (said["index"], said["commitment"]) == (event.index, event.commitment)
        return f"signed by {self._whose(sent, event.operator)}" if mine else None

    def seeded(self, event: Seeded, call: Call, sent: Transaction) -> str | None:
        try:
            header = rlp.decode(call.arguments["header"])
            said = int.from_bytes(header[_NUMBER], "big"), bytes(header[_MIX]).rjust(32, b"\0")
        except (rlp.exceptions.RLPException, TypeError, ValueError, IndexError, RecursionError):
            return None
        if call.arguments["blockNumber"] != event.seed_block or said != (event.seed_block, event.mix):
            return None
        return f"as block 0x{keccak(call.arguments['header']).hex()} has it"

    def revealed(self, event: Revealed, call: Call, sent: Transaction) -> str | None:
        """The opening hashes to what was committed to, so whoever signed that had fixed this root before."""
        operator, hidden = self.hidden.get(event.slot, ("", b""))
        for order, opening in _pairs(call, ("order", "opening"), ("orders", "openings")):
            task, slot, root, salt = opening
            if order == self.order and (task, slot, root) == (self.receipt.uuid, event.slot, event.outputs_root):
                opened = operator and commitment(self.domain, task, operator, slot, root, salt) == hidden
                return f"it opens what {operator} committed to" if opened else None
        return None

    def challenged(self, event: Challenged, call: Call, sent: Transaction) -> str | None:
        if call.name == "challenge":
            said = call.arguments
            mine = _same(said["challenger"], event.challenger) and said["order"] == self.order
            return f"signed by {self._whose(sent, event.challenger)}" if mine else None
        verifiers = {answer.operator for answer in self.told.answers if answer.agrees is False}
        return "by the reveal of an answer that differs" if event.challenger in verifiers else None

    def _whose(self, sent: Transaction, account: str) -> str:
        """Who signed for an account: the chain alone says whether it was allowed to."""
        return f"{account} itself" if sent.sender == account else f"{sent.sender} for {account}"


Rule = Callable[[_Proof, Any, Call, Transaction], str | None]

_RULES: dict[type[Event], tuple[tuple[str, ...], Rule, str]] = {
    Posted: (("post", "postMany"), _Proof.posted, "the client ordered it"),
    Accepted: (("accept", "acceptMany"), _Proof.accepted, "operator {event.executor} accepted it"),
    Committed: (("commit", "commitMany"), _Proof.committed, "it committed to its result"),
    Seeded: (("seed",), _Proof.seeded, "block {event.seed_block} gave the randomness of the draw"),
    Answered: (("answer",), _Proof.answered, "verifier {event.operator} answered"),
    Revealed: (("reveal", "revealMany"), _Proof.revealed, "slot {event.slot} revealed its outputs root"),
    Challenged: (("challenge", "reveal", "revealMany"), _Proof.challenged, "{event.challenger} challenged it"),
}


def _pairs(call: Call, one: tuple[str, ...], many: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
    """The arguments of a message, or those of each task in a message about many."""
    if call.name.endswith("Many"):
        return list(zip(*(call.arguments[name] for name in many), strict=False))
    return [tuple(call.arguments[name] for name in one)]


def _same(one: Any, other: str) -> bool:
    return str(one).lower() == other.lower()


def _formulas(receipt: Receipt) -> Iterator[Proved]:
    """What the market computes and when it lets it happen, computed again."""
    told, order, p = receipt.told, receipt.order, receipt.market.parameters
    accepted = next(event for event in receipt.events if isinstance(event, Accepted))
    price = economics.price(order.min_price, order.max_price, order.ramp_start, order.ramp_length, accepted.place.block)
    held = economics.collateral(p, price, order.verifiers, order.check_fee)
    bond = economics.bond(p, price)
    fees = min(told.agreed, order.verifiers) * order.check_fee
    rows = [
        ("money.price", told.price, price, "of the order's prices in the block of the acceptance"),
        ("money.collateral", told.collateral, held, "K"),
        *((f"games[{i}].bond", game.bond, bond, "B") for i, game in enumerate(told.games)),
    ]
    for event in receipt.events:
        if isinstance(event, Closed):
            rows.append(("money.refund", event.refund, order.escrow - price - fees, "escrow less price and fees"))
            if event.paid < price:
                raise WrongReceipt("money.paid", f"it is {event.paid}, below the price {price}")
        # What was prepaid for a demand comes back with a conviction, too.
        if isinstance(event, Convicted) and event.refund < order.escrow:
            raise WrongReceipt("money.refund", f"it is {event.refund}, below the escrow {order.escrow}")
    for where, said, right, what in rows:
        if said != right:
            raise WrongReceipt(where, f"it is {said}, by the market's formula {right}: {what}")
    yield Proved("formula", f"price, collateral{', bonds' * bool(told.games)} and refund are what the market computes")
    _check_times(receipt)
    yield Proved("formula", "everything happened in its window")
    if told.drawn is not None:
        words = "drawn" if told.drawn else "not drawn"
        yield Proved("formula", f"with this randomness the task is {words} for a check")


def _check_times(receipt: Receipt) -> None:
    told = receipt.told
    names = {Accepted: "accept", Committed: "commit", Seeded: "seed", Answered: "answer", Challenged: "challenge"}
    indices = 16 * receipt.order.verifiers
    for number, event in enumerate(receipt.events):
        name = names.get(type(event))
        if isinstance(event, Revealed):
            name = "answers_reveal" if event.slot else "reveal"
        window = told.windows[name] if name else None
        if name and (window is None or not window[0] <= event.place.block <= window[1]):
            raise WrongReceipt(f"events[{number}]", f"{type(event).__name__} stands outside of its window, {name}")
        if isinstance(event, Answered) and (event.index >= indices or event.operator == told.executor):
            raise WrongReceipt(f"events[{number}]", "nobody may answer there")
        if isinstance(event, Revealed | Answered) and (told.mix is None or (event_slot(event) and not told.drawn)):
            raise WrongReceipt(f"events[{number}]", "without a seed nothing is revealed, undrawn nobody answers")
        if isinstance(event, Revealed) and not event.slot and told.drawn:
            window = told.windows["answer"]
            if window is not None and event.place.block <= window[1]:
                raise WrongReceipt(f"events[{number}]", "a drawn task is revealed after the answers")
    if len({answer.operator for answer in told.answers}) != len(told.answers):
        raise WrongReceipt("checks.answers", "a verifier answered twice")


def event_slot(event: Revealed | Answered) -> int:
    return event.slot if isinstance(event, Revealed) else event.index + 1
