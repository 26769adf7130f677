"""What a receipt proves by itself, without a network: signatures, hashes, and the market's formulas."""

from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import rlp
from eth_hash.backends.pysha3 import keccak256 as keccak

from eigentensor.chain import (
    Accepted,
    Answered,
    Challenged,
    Committed,
    Demanded,
    Event,
    Exposed,
    Posted,
    Revealed,
    Seeded,
    commitment,
    order_signer,
)
from eigentensor.chain.transactions import Transaction
from eigentensor.errors import WrongReceipt
from eigentensor.receipt.messages import Call, is_order, pairs_of
from eigentensor.receipt.model import Receipt
from eigentensor.receipt.rules import Proved, check_rules
from eigentensor.store.tensors import bindings_root

_NUMBER, _MIX = 8, 13  # fields of a header


def prove(receipt: Receipt) -> list[Proved]:
    """Every line that follows from signatures and hashes in the receipt, and those that are left to the chain.

    Raises WrongReceipt for the first that does not hold.
    """
    return [
        Proved("hash", f"task {receipt.task} is the hash of the order, on chain {receipt.market.domain.chain_id}"),
        *_Proof(receipt).lines(),
        *check_rules(receipt),
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
        self.domain = receipt.market.domain
        self.hidden = {0: (self.told.executor, self.told.commitment)}
        self.hidden |= {a.index + 1: (a.operator, a.commitment) for a in self.told.answers}

    def lines(self) -> Iterator[Proved]:
        for number, transaction in enumerate(self.receipt.signed.values()):
            if transaction.chain_id not in (None, self.domain.chain_id):
                raise WrongReceipt(f"transactions[{number}]", f"it is signed for chain {transaction.chain_id}")
        for number, event in enumerate(self.receipt.events):
            if type(event) in _RULES:
                yield self._line(f"events[{number}]", event)

    def _line(self, where: str, event: Event) -> Proved:
        names, rule, subject = _RULES[type(event)]
        words = subject(self, event)
        transaction, call = self.receipt.sent(event)
        if transaction.to != self.domain.market:
            if call is not None:
                raise WrongReceipt(where, f"its transaction went to {transaction.to}, another market")
            return Proved("chain", f"{words}, through contract {transaction.to}")
        said = rule(self, event, call, transaction) if call is not None and call.name in names else None
        if said is None:
            by = f"{call.name if call else 'nothing that is known'} by {transaction.sender}"
            raise WrongReceipt(where, f"its transaction does not say so: it says {by}")
        return Proved("hash" if isinstance(event, Seeded | Revealed | Exposed) else "signature", f"{words}: {said}")

    # ---- What each message must say ----

    def posted(self, event: Posted, call: Call, sent: Transaction) -> str | None:
        order, client = self.receipt.order, self.receipt.order.client
        pairs = pairs_of(call, ("order", "signature"), ("orders", "signatures"))
        signatures = [signature for struct, signature in pairs if is_order(struct, order)]
        if signatures and sent.sender == client:
            return "signed by the client"
        if any(order_signer(order, self.domain, signature) == client for signature in signatures):
            return f"signed by the client, sent by {sent.sender}"
        # A client that is a contract agrees in its own way.
        return f"sent by {sent.sender}, with a signature for the chain to judge" if any(signatures) else None

    def accepted(self, event: Accepted, call: Call, sent: Transaction) -> str | None:
        orders = pairs_of(call, ("order",), ("orders",))
        mine = any(is_order(order, self.receipt.order) for (order,) in orders)
        return self._signed(call, sent, event.executor) if mine else None

    def committed(self, event: Committed, call: Call, sent: Transaction) -> str | None:
        said = pairs_of(call, ("task", "commitment"), ("tasks", "commitments"))
        mine = (self.receipt.uuid, event.commitment) in said
        return self._signed(call, sent, self.told.executor) if mine else None

    def answered(self, event: Answered, call: Call, sent: Transaction) -> str | None:
        said = call.arguments
        mine = (said["index"], said["commitment"]) == (event.index, event.commitment)
        return (
            self._signed(call, sent, event.operator) if mine and is_order(said["order"], self.receipt.order) else None
        )

    def seeded(self, event: Seeded, call: Call, sent: Transaction) -> str | None:
        try:
            header = rlp.decode(call.arguments["header"])
            said = int.from_bytes(header[_NUMBER], "big"), bytes(header[_MIX])
        except (rlp.exceptions.RLPException, TypeError, ValueError, IndexError, RecursionError):
            return None
        block = f"0x{keccak(call.arguments['header']).hex()}"
        return f"the header of {block} has it" if said == (event.seed_block, event.mix) else None

    def revealed(self, event: Revealed, call: Call, sent: Transaction) -> str | None:
        """The opening hashes to what was committed to, so whoever signed that had fixed this root before."""
        opening, hidden = self.receipt.opening(event), self.hidden.get(event.slot)
        if opening is None or hidden is None:
            return None
        task, slot, root, salt = opening
        operator, committed = hidden
        return (
            "it opens the commitment"
            if commitment(self.domain, task, operator, slot, root, salt) == committed
            else None
        )

    def challenged(self, event: Challenged, call: Call, sent: Transaction) -> str | None:
        if call.name == "challenge":
            mine = is_order(call.arguments["order"], self.receipt.order)
            return self._signed(call, sent, event.challenger, "challenger") if mine else None
        verifiers = {answer.operator for answer in self.told.answers if answer.agrees is False}
        return "its answer was opened, and differs" if event.challenger in verifiers else None

    def demanded(self, event: Demanded, call: Call, sent: Transaction) -> str | None:
        leaves = tuple(map(astuple, event.leaves))
        mine = is_order(call.arguments["order"], self.receipt.order) and call.arguments["leaves"] == leaves
        return "signed by the client" if mine and sent.sender == self.receipt.order.client else None

    def exposed(self, event: Exposed, call: Call, sent: Transaction) -> str | None:
        task, slot, root, salt = call.arguments["opening"]
        operator, hidden = self.hidden.get(event.slot, ("", b""))
        if not operator or (task, slot, event.caller) != (self.receipt.uuid, event.slot, sent.sender):
            return None
        opened = commitment(self.domain, task, operator, slot, root, salt)
        return f"it opens the commitment of {operator}" if opened == hidden else None

    def _signed(self, call: Call, sent: Transaction, account: str, name: str = "operator") -> str | None:
        """Who signed for an account: the chain alone says whether it was allowed to."""
        if call.arguments[name] != account.lower():
            return None
        return "signed by itself" if sent.sender == account else f"signed by {sent.sender} for it"

    def who(self, event: Revealed) -> str:
        operator, _ = self.hidden.get(event.slot, ("nobody", b""))
        return f"{'verifier' if event.slot else 'executor'} {operator} revealed root 0x{event.outputs_root.hex()}"


_Rule = Callable[[_Proof, Any, Call, Transaction], str | None]
_Subject = Callable[[_Proof, Any], str]

_RULES: dict[type[Event], tuple[tuple[str, ...], _Rule, _Subject]] = {
    Posted: (("post", "postMany"), _Proof.posted, lambda _, e: f"client {e.client} ordered it"),
    Accepted: (("accept", "acceptMany"), _Proof.accepted, lambda _, e: f"operator {e.executor} accepted it"),
    Committed: (("commit", "commitMany"), _Proof.committed, lambda of, _: f"executor {of.told.executor} committed"),
    Seeded: (("seed",), _Proof.seeded, lambda _, e: f"block {e.seed_block} gave the draw's random value"),
    Answered: (("answer",), _Proof.answered, lambda _, e: f"verifier {e.operator} answered"),
    Revealed: (("reveal", "revealMany"), _Proof.revealed, _Proof.who),
    Challenged: (
        ("challenge", "reveal", "revealMany"),
        _Proof.challenged,
        lambda _, e: f"{e.challenger} opened game {e.game_id}",
    ),
    Demanded: (("demand",), _Proof.demanded, lambda _, e: f"the client demanded {len(e.leaves)} leaves"),
    Exposed: (("expose",), _Proof.exposed, lambda _, e: f"{e.caller} exposed slot {e.slot}"),
}
