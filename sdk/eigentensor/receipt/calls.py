"""A call receipt as a file: what an operator signed of one call of a channel, and where a batch has it.

`prove` holds it to the signatures and hashes in it, without a network; `compare` holds it to a chain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from eigentensor.chain import Reader
from eigentensor.channel import CallPlace, CallProof, CallReceipt, Deal, LineProof, Offer, batch_of, channel_of
from eigentensor.channel.signed import hash_of, index_of, pool_of, task_of
from eigentensor.errors import TaskError, WrongReceipt
from eigentensor.receipt import canonical
from eigentensor.receipt.rules import Proved
from eigentensor.task import Domain, Order
from eigentensor.task.signatures import is_signed_by
from eigentensor.wire import Address, Block, Data, Hash, Object, Size, read


@dataclass(frozen=True, slots=True)
class Confirmation(Object):
    """The answer of a drawn verifier whose share has the call."""

    slot: Size
    """The index of the answer, and one."""
    operator: Address
    """The verifier."""


@dataclass(frozen=True, slots=True)
class CommittedCall(Object):
    """Where a batch has a call."""

    root: Hash
    """What the operator committed to: the root over the lines of the batch."""
    line: LineProof
    """The channel's line, and its way to that root."""
    path: tuple[Hash, ...]
    """From the call's leaf to the root of the line."""
    block: Block
    """When it was committed."""
    confirmed: tuple[Confirmation, ...] = ()
    """Verifiers that were drawn for the call, and agree."""


@dataclass(frozen=True, slots=True)
class SignedCall(Object, schema="eigentensor.call-receipt/1"):
    """`eigentensor.call-receipt/1`: what an operator signed of a call."""

    chain_id: Size
    """The chain."""
    channels: Address
    """The market for paid calls on it."""
    offer: Offer
    """The terms of all channels of the pool."""
    deal: Deal
    """The terms of the channel."""
    agreed: Data
    """The offer's signer's signature, of the deal."""
    order: Order
    """What was to be computed."""
    receipt: CallReceipt
    """What came of it."""
    signature: Data
    """The offer's signer's, of the receipt."""
    committed: CommittedCall | None = None
    """Where its batch has it; null while that is not known."""

    def __repr__(self) -> str:
        committed = "" if self.committed is None else ", committed"
        return f"<SignedCall {self.receipt.index} of channel {self.receipt.channel.hex()[:10]}{committed}>"

    @property
    def domain(self) -> Domain:
        """In which everything is signed."""
        return Domain(self.chain_id, self.channels)

    @property
    def batch(self) -> bytes:
        """The batch that owes it."""
        return batch_of(self.deal.pool, self.receipt.number)

    def to_bytes(self) -> bytes:
        """The file."""
        return canonical.text(self.to_json()) + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads a file. Raises WrongReceipt for what is none of this version."""
        return cls.from_json(canonical.parse(data))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises WrongReceipt for anything else."""
        try:
            if values["schema"] != cls.SCHEMA:
                raise ValueError(f"it is of {values['schema']!r}")
            return cls(**read(cls, values))
        except (TypeError, ValueError, KeyError, AttributeError, TaskError) as error:
            raise WrongReceipt("", f"it is no call receipt: {error}") from None


def is_call(data: bytes) -> bool:
    """Whether a file says that it is a call receipt."""
    return canonical.parse(data).get("schema") == SignedCall.SCHEMA


def prove(call: SignedCall) -> list[Proved]:
    """What follows from the file alone. Raises WrongReceipt, which names the member that is not what it says."""
    return list(_proved(call))


def _proved(call: SignedCall) -> Iterator[Proved]:
    domain, offer, receipt, channel = call.domain, call.offer, call.receipt, channel_of(call.domain, call.deal)
    _hold("deal.pool", call.deal.pool == pool_of(domain, offer), "the deal is of another offer's pool")
    _hold("agreed", is_signed_by(offer.signer, channel, call.agreed), "the offer's signer did not sign the deal")
    yield Proved("signature", f"{offer.signer} agreed to channel {channel.hex()}", "that the pool was offered")
    _hold("receipt.channel", receipt.channel == channel, "the receipt is of another channel")
    _hold("receipt.order", receipt.order == task_of(domain, call.order), "the receipt is of another order")
    named = (call.order.operators, index_of(call.order)) == (channel, receipt.index)
    _hold("order", named, "the order names another place")
    signed = is_signed_by(offer.signer, hash_of(domain, receipt), call.signature)
    _hold("signature", signed, "the offer's signer did not sign the receipt")
    yield Proved("signature", f"{offer.signer} gave call {receipt.index} outputs 0x{receipt.outputs_root.hex()}")
    yield Proved("signature", f"batch {receipt.number} owes it, or the operator is convicted", "how that batch stands")
    if (committed := call.committed) is not None:
        line = committed.line.line
        _hold("committed.line", line.channel == channel, "the line is of another channel")
        _hold("committed.line", committed.line.leads_to(committed.root), "the line does not lead to the batch's root")
        proof = CallProof(receipt.index, receipt.order, receipt.outputs_root, committed.path)
        place = CallPlace(committed.line, proof, call.order)
        _hold("committed.path", place.leads_to(committed.root, domain), "the call does not stand under its line")
        yield Proved("hash", f"call {line.number_of(receipt.index)} of the batch is this one", "that it was committed")


def _hold(where: str, is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise WrongReceipt(where, otherwise)


@dataclass(frozen=True, slots=True)
class CallStanding(Object):
    """How a call stands on a chain."""

    block: Block
    """The block that was asked."""
    state: str
    """That of the batch which owes it, in small letters; `none`: it was never begun."""
    is_committed: bool
    """Whether the batch has the call where the receipt says."""
    confirmed: Size
    """How many verifiers that were drawn for it agree, of those that the receipt names."""


def compare(call: SignedCall, chain: Reader) -> CallStanding:
    """How a call stands. Raises WrongReceipt where the chain has something else, ChainError."""
    deployment, committed = chain.deployment, call.committed
    if call.domain != deployment.channels_domain:
        raise WrongReceipt("channels", f"it is of market {call.channels} on chain {call.chain_id}, not of this network")
    block, batch = chain.node.block_number(), chain.channels.batch_at(call.batch)
    _hold("deal.pool", chain.channels.pool_at(call.deal.pool).offered, "the pool was never offered")
    confirmed = 0
    if committed is not None:
        root = chain.channels.roots_at(call.batch).lines
        _hold("committed.root", root == committed.root, f"the chain has 0x{root.hex()}")
        _hold("committed.block", batch.committed_at == committed.block, f"it was block {batch.committed_at}")
        for number, one in enumerate(committed.confirmed):
            answer = chain.channels.answer_at(call.batch, one.slot - 1)
            known = answer.operator.lower() == one.operator.lower()
            _hold(f"committed.confirmed[{number}]", known, f"the answer is of {answer.operator}")
        confirmed = len(committed.confirmed)
    return CallStanding(block, batch.state.name.lower(), committed is not None, confirmed)
