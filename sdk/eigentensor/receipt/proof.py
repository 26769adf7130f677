"""What a receipt proves by itself, without a network: signatures, hashes, and the market's formulas."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from eigentensor import rlp
from eigentensor.chain.transactions import Transaction
from eigentensor.errors import WrongReceipt
from eigentensor.keccak import keccak
from eigentensor.receipt.evidence import SIGNED, Call, Proof, call_of, is_order, pairs_of
from eigentensor.receipt.model import Receipt
from eigentensor.receipt.rules import Proved, check_rules
from eigentensor.store.tensors import bindings_root
from eigentensor.task import (
    Accepted,
    Answered,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Demanded,
    Event,
    Exposed,
    GameEnded,
    Posted,
    Revealed,
    Seeded,
    Slashed,
    commitment,
    order_signer,
)

_NUMBER, _MIX = 8, 13  # fields of a header


def prove(receipt: Receipt) -> list[Proved]:
    """Every line that follows from signatures and hashes in the receipt, and those that are left to the chain.

    Raises WrongReceipt for the first that does not hold.
    """
    domain = receipt.market.domain
    return [
        Proved(
            "hash", f"task {receipt.task} is the order's hash, for market {domain.market} on chain {domain.chain_id}"
        ),
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
    """Each event that somebody vouches for: whoever signed it, what hashes to it, or the market alone."""

    def __init__(self, receipt: Receipt) -> None:
        self.receipt = receipt
        self.life = receipt.life
        self.domain = receipt.market.domain
        self.calls = {name: call_of(transaction) for name, transaction in receipt.signed.items()}
        self.hidden: dict[int, tuple[str, bytes | None]] = {0: (self.life.executor or "", self.life.commitment)}
        self.hidden |= {a.index + 1: (a.operator, a.commitment) for a in self.life.answers.values()}

    def lines(self) -> Iterator[Proved]:
        for number, transaction in enumerate(self.receipt.signed.values()):
            if transaction.chain_id != self.domain.chain_id:
                chain = "any chain" if transaction.chain_id is None else f"chain {transaction.chain_id}"
                raise WrongReceipt(f"transactions[{number}]", f"it is signed for {chain}")
        for number, (event, proof) in enumerate(zip(self.receipt.events, self.receipt.proofs, strict=True)):
            if (subject := _SUBJECTS.get(type(event))) is not None:
                yield self._line(number, subject(self, event), event, proof)

    def _line(self, number: int, words: str, event: Event, proof: Proof | None) -> Proved:
        where, sent = f"events[{number}]", self.receipt.signed.get(event.place.transaction)
        if proof is not None:
            reason, by = _PROOFS[type(event)](self, event, proof), "signature" if isinstance(event, Posted) else "hash"
        elif type(event) in SIGNED and sent is not None:
            reason, by = self._sent(where, event, sent), "signature"
        elif isinstance(event, Challenged) and self._follows(event, self.receipt.events[number - 1]):
            reason, by = "its answer differs, which opens a game by itself", "formula"
        else:
            return Proved("chain", words, "nothing in the file proves it")
        if reason is None:
            raise WrongReceipt(where, f"{'its proof' if proof else 'its transaction'} does not say so")
        return Proved(by, f"{words}: {reason}", self._left(event, sent))

    def _left(self, event: Event, sent: Transaction | None) -> str:
        """What a signature or a hash does not say."""
        account: str | None
        match event:
            case Seeded():
                return "is it that block's?"
            case Accepted(executor=account) | Answered(operator=account) | Challenged(challenger=account):
                pass
            case Committed():
                account = self.life.executor
            case _:
                return ""
        return "" if sent is None or sent.sender == account else "may it?"

    def _sent(self, where: str, event: Event, sent: Transaction) -> str | None:
        if sent.to != self.domain.market:
            raise WrongReceipt(where, f"its transaction went to {sent.to}, not to the market")
        call = self.calls[sent.hash]
        is_one = call is not None and call.name in SIGNED[type(event)]
        return _MESSAGES[type(event)](self, event, call, sent) if is_one else None

    # ---- What a signed message must say ----

    def posted(self, event: Posted, call: Call, sent: Transaction) -> str | None:
        pairs = pairs_of(call, ("order", "signature"), ("orders", "signatures"))
        mine = any(is_order(struct, self.receipt.order) for struct, _ in pairs)
        return "signed by itself" if mine and sent.sender == self.receipt.order.client else None

    def accepted(self, event: Accepted, call: Call, sent: Transaction) -> str | None:
        orders = pairs_of(call, ("order",), ("orders",))
        mine = any(is_order(order, self.receipt.order) for (order,) in orders)
        return self._signed(call, sent, event.executor) if mine else None

    def committed(self, event: Committed, call: Call, sent: Transaction) -> str | None:
        stated = pairs_of(call, ("task", "commitment"), ("tasks", "commitments"))
        mine = (self.receipt.uuid, event.commitment) in stated
        return self._signed(call, sent, self.life.executor) if mine else None

    def answered(self, event: Answered, call: Call, sent: Transaction) -> str | None:
        stated = call.arguments
        mine = (stated["index"], stated["commitment"]) == (event.index, event.commitment)
        mine = mine and is_order(stated["order"], self.receipt.order)
        return self._signed(call, sent, event.operator) if mine else None

    def challenged(self, event: Challenged, call: Call, sent: Transaction) -> str | None:
        mine = is_order(call.arguments["order"], self.receipt.order)
        return self._signed(call, sent, event.challenger, "challenger") if mine else None

    def demanded(self, event: Demanded, call: Call, sent: Transaction) -> str | None:
        leaves = tuple(map(astuple, event.leaves))
        mine = is_order(call.arguments["order"], self.receipt.order) and call.arguments["leaves"] == leaves
        return "signed by itself" if mine and sent.sender == self.receipt.order.client else None

    def _signed(self, call: Call, sent: Transaction, account: str | None, name: str = "operator") -> str | None:
        """Who signed for an account."""
        if account is None or call.arguments[name] != account:
            return None
        return "signed by itself" if sent.sender == account else f"signed by {sent.sender}"

    # ---- What proves itself ----

    def ordered(self, event: Posted, proof: Proof) -> str | None:
        signer = order_signer(self.receipt.order, self.domain, proof["signature"])
        return "signed by itself" if signer == self.receipt.order.client else None

    def seeded(self, event: Seeded, proof: Proof) -> str | None:
        try:
            header: Any = rlp.decode(proof["header"])
            stated = int.from_bytes(header[_NUMBER], "big"), bytes(header[_MIX])
        except (TypeError, ValueError, IndexError):
            return None
        block = f"0x{keccak(proof['header']).hex()}"
        return f"so says a header with hash {block}" if stated == (event.seed_block, event.mix) else None

    def revealed(self, event: Revealed, proof: Proof) -> str | None:
        """The opening hashes to what was committed to, so whoever signed that had fixed this root before."""
        return "it opens the commitment" if self._opens(event.slot, event.outputs_root, proof["salt"]) else None

    def exposed(self, event: Exposed, proof: Proof) -> str | None:
        return "this opens it" if self._opens(event.slot, proof["outputs_root"], proof["salt"]) else None

    def _opens(self, slot: int, root: bytes, salt: bytes) -> bool:
        operator, hidden = self.hidden.get(slot, ("", b""))
        return bool(operator) and commitment(self.domain, self.receipt.uuid, operator, slot, root, salt) == hidden

    def _follows(self, event: Challenged, before: Event) -> bool:
        """Whether it comes with the reveal of an answer of the challenger that differs."""
        if not isinstance(before, Revealed) or before.place.transaction != event.place.transaction:
            return False
        operator, _ = self.hidden.get(before.slot, ("", b""))
        return operator == event.challenger and before.outputs_root != self.life.outputs_root

    def who(self, slot: int) -> str:
        operator, _ = self.hidden.get(slot, ("nobody", b""))
        return f"{'verifier' if slot else 'executor'} {operator}"


_MESSAGES: Mapping[type[Event], Callable[[_Proof, Any, Any, Transaction], str | None]] = {
    Posted: _Proof.posted,
    Accepted: _Proof.accepted,
    Committed: _Proof.committed,
    Answered: _Proof.answered,
    Challenged: _Proof.challenged,
    Demanded: _Proof.demanded,
}
_PROOFS: Mapping[type[Event], Callable[[_Proof, Any, Proof], str | None]] = {
    Posted: _Proof.ordered,
    Seeded: _Proof.seeded,
    Revealed: _Proof.revealed,
    Exposed: _Proof.exposed,
}
_SUBJECTS: Mapping[type[Event], Callable[[_Proof, Any], str]] = {
    Posted: lambda _, e: f"client {e.client} ordered it",
    Accepted: lambda _, e: f"operator {e.executor} accepted it",
    Committed: lambda of, _: f"{of.who(0)} committed",
    Seeded: lambda _, e: f"block {e.seed_block} has the draw's random value",
    Answered: lambda _, e: f"verifier {e.operator} answered",
    Revealed: lambda of, e: f"{of.who(e.slot)} had fixed root 0x{e.outputs_root.hex()}",
    Exposed: lambda of, e: f"the commitment of {of.who(e.slot)} was exposed",
    Challenged: lambda _, e: f"{e.challenger} challenged it",
    Demanded: lambda _, e: f"the client demanded {len(e.leaves)} leaves",
    GameEnded: lambda _, e: f"game {e.game_id} was lost by the {'executor' if e.executor_lost else 'challenger'}",
    Closed: lambda _, e: f"it became final in block {e.place.block}",
    Convicted: lambda _, e: f"the executor was convicted in block {e.place.block}",
    Slashed: lambda _, e: f"{e.shares} shares of the executor's stake were slashed",
}
