"""The client's side of a channel: what it signs, and what it takes for a result. Pure.

What is to be signed is written down before it is sent: killed in between, a client sends the same again. A voucher
acknowledges all results that came; so the operator can commit to nothing else of these.
"""

from dataclasses import dataclass, field, replace
from typing import Self

from eigentensor import merkle
from eigentensor.channel.calls import CallResponse
from eigentensor.channel.deals import CallReceipt, Deal, Offer, Voucher
from eigentensor.channel.signed import channel_of, hash_of
from eigentensor.errors import ChannelBusy, ChannelSpent, WrongReceipt, WrongResult
from eigentensor.merkle import Frontier
from eigentensor.task.order import Domain
from eigentensor.task.signatures import is_signed_by


@dataclass(frozen=True, slots=True)
class Sent:
    """A call that is under way: its order and its voucher."""

    order: bytes
    voucher: Voucher


@dataclass(frozen=True, slots=True)
class Payer:
    """What a client remembers of a channel. `frontier` is of all calls whose receipts came; `number` the newest batch
    that is known to be begun."""

    domain: Domain
    offer: Offer
    deal: Deal
    channel: bytes
    deposit: int
    """Wei that are left on chain."""
    paid: int = 0
    """Wei that the channel's batches came to."""
    amount: int = 0
    """Wei that are owed for the calls whose receipts came, those of earlier batches included."""
    frontier: Frontier = field(default_factory=Frontier)
    number: int = 0
    sent: tuple[Sent, ...] = ()

    @classmethod
    def of(cls, domain: Domain, offer: Offer, deal: Deal, deposit: int) -> Self:
        """A channel in which nothing was called yet."""
        return cls(domain, offer, deal, channel_of(domain, deal), deposit)

    @property
    def count(self) -> int:
        """Calls whose receipts came."""
        return self.frontier.leaves

    @property
    def next(self) -> int:
        """The index of the next call."""
        return self.count + len(self.sent)

    @property
    def owed(self) -> int:
        """Wei of the newest voucher."""
        return self.sent[-1].voucher.amount if self.sent else self.amount

    @property
    def left(self) -> int:
        """Wei that calls of the batch at hand may still cost."""
        return self.paid + min(self.deal.most, self.deposit) - self.owed

    def called(self, order: bytes, price: int) -> tuple[Self, Voucher]:
        """With one more call under way, of `price` wei, and the voucher that is to be signed for it.

        Raises ChannelBusy where as many are under way as the offer lets, ChannelSpent where deposit or deal do not
        reach.
        """
        if len(self.sent) >= self.offer.tail:
            raise ChannelBusy(f"{len(self.sent)} calls are under way")
        if price > self.left:
            raise ChannelSpent(f"a call costs {price} wei, {max(0, self.left)} are left", price - max(0, self.left))
        voucher = Voucher(self.channel, self.next + 1, self.owed + price, self.count, self.frontier.root())
        return replace(self, sent=(*self.sent, Sent(order, voucher))), voucher

    def received(self, response: CallResponse, outputs_root: bytes) -> Self:
        """After the response to the oldest call under way, whose outputs and states have this root.

        Raises WrongReceipt for a response that proves nothing, WrongResult where it is signed for other outputs than
        came: the call stays under way.
        """
        receipt, sent = response.receipt, self.sent[0]
        self._check(receipt, sent)
        if not is_signed_by(self.offer.signer, hash_of(self.domain, receipt), response.signature):
            raise WrongReceipt("signature", "the operator did not sign it")
        if receipt.outputs_root != outputs_root:
            raise WrongResult(
                f"the outputs have the root {outputs_root.hex()}, the receipt names {receipt.outputs_root.hex()}"
            )
        frontier = self.frontier.copy()
        result = merkle.result_of(receipt.outputs_root)
        frontier.append(merkle.call_hash(self.channel, receipt.index, receipt.order, result))
        return replace(
            self, amount=sent.voucher.amount, frontier=frontier, number=receipt.number, sent=self.sent[1:]
        )  # fmt: skip

    def _check(self, receipt: CallReceipt, sent: Sent) -> None:
        expected = {"channel": self.channel, "index": self.count, "order": sent.order}
        for name, value in expected.items():
            if getattr(receipt, name) != value:
                raise WrongReceipt(name, "it is of another call")
        if receipt.number < self.number:
            # A batch that is over owes nothing: its receipts convict nobody.
            raise WrongReceipt("number", f"batch {receipt.number} owes it, {self.number} is begun")

    def last(self) -> Voucher:
        """The voucher by which the channel may be concluded: for all calls, of which none may be under way."""
        return Voucher(self.channel, self.count, self.amount, self.count, self.frontier.root())

    def refused(self) -> Self:
        """Without the calls under way, of which the operator took none."""
        return replace(self, sent=())

    def begun(self, number: int) -> Self:
        """Batch `number` is begun."""
        return replace(self, number=max(self.number, number))

    def committed(self, amount: int) -> Self:
        """After a batch with which the channel came to so many wei in all."""
        return replace(self, paid=amount, deposit=self.deposit - (amount - self.paid))

    def funded(self, amount: int) -> Self:
        """With so many wei more in the deposit."""
        return replace(self, deposit=self.deposit + amount)
