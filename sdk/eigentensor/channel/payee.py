"""The operator's side of a channel: which calls it takes, and what it can commit to. Pure.

Calls come in order. A voucher pays for all calls up to its own: it is taken (`taken`) before its call is executed, and
once it was (`executed`) the operator has signed a receipt, which it owes a batch. `sheet` is what a commit brings of
the channel: the newest voucher whose calls are all executed.
"""

from dataclasses import dataclass, field, replace
from typing import Self

from eigentensor.channel.calls import Payment
from eigentensor.channel.deals import CallReceipt, Deal, Offer, Voucher
from eigentensor.channel.lines import Sheet, Tail
from eigentensor.channel.signed import channel_of, hash_of
from eigentensor.errors import CallRefused, ChannelBusy, ChannelSpent
from eigentensor.merkle import Frontier, call_hash, result_of
from eigentensor.task.order import Domain
from eigentensor.task.signatures import is_signed_by


@dataclass(frozen=True, slots=True)
class Taken:
    """A voucher and its signature, the order that it pays for, and the frontier of the calls that it acknowledges."""

    voucher: Voucher
    signature: bytes
    order: bytes
    frontier: Frontier


@dataclass(frozen=True, slots=True)
class Payee:
    """What an operator remembers of a channel. `frontier` is of the calls that the newest executed voucher
    acknowledges, `receipts` are of the executed calls behind them."""

    domain: Domain
    offer: Offer
    deal: Deal
    channel: bytes
    deposit: int
    """Wei that are left on chain."""
    paid: int = 0
    """Wei that the channel's batches came to."""
    first: int = 0
    """Calls that its batches have."""
    voucher: Voucher | None = None
    signature: bytes = b""
    frontier: Frontier = field(default_factory=Frontier)
    receipts: tuple[CallReceipt, ...] = ()
    pending: tuple[Taken, ...] = ()

    @classmethod
    def of(cls, domain: Domain, offer: Offer, deal: Deal, deposit: int) -> Self:
        """A channel in which nothing was called yet."""
        return cls(domain, offer, deal, channel_of(domain, deal), deposit)

    # ---- What it owes ----

    @property
    def count(self) -> int:
        """Calls that were executed."""
        return self.voucher.count if self.voucher else 0

    @property
    def amount(self) -> int:
        """Wei that are owed for them, those of earlier batches included."""
        return self.voucher.amount if self.voucher else 0

    @property
    def newest(self) -> Voucher | None:
        """The newest voucher that was taken: what the next one goes on from."""
        return self.pending[-1].voucher if self.pending else self.voucher

    @property
    def left(self) -> int:
        """Wei that calls of the batch at hand may still cost."""
        amount = self.newest.amount if self.newest else 0
        return self.paid + min(self.deal.most, self.deposit) - amount

    # ---- Calls ----

    def taken(self, payment: Payment, order: bytes, price: int) -> Self:
        """With a call that is paid for, and waits to be executed.

        Raises CallRefused for a voucher that does not pay for it or does not go on from the newest one, ChannelBusy
        where it acknowledges too few calls, ChannelSpent where deposit or deal do not reach.
        """
        voucher, newest = payment.voucher, self.newest
        owed, count = (newest.amount, newest.count) if newest else (0, 0)
        if voucher.channel != self.channel:
            raise CallRefused("the voucher is of another channel", fix="Sign one of this channel.")
        if voucher.count != count + 1:
            raise CallRefused(
                f"the voucher is for {voucher.count} calls, the next one for {count + 1}",
                fix="Go on from the voucher that is named as the newest one.",
            )
        if voucher.amount < owed + price:
            raise CallRefused(
                f"the voucher is of {voucher.amount} wei: {owed} are owed, and the call costs {price}",
                fix=f"Sign one of {owed + price} wei.",
            )
        if (over := voucher.amount - owed - self.left) > 0:
            raise ChannelSpent(f"{over} wei more than deposit or deal allow are asked for", over)
        frontier = self._acknowledged(voucher, newest.acked if newest else 0)
        if not is_signed_by(self.deal.payer, hash_of(self.domain, voucher), payment.signature):
            raise CallRefused("the payer did not sign the voucher", fix=f"Sign it with the key of {self.deal.payer}.")
        return replace(self, pending=(*self.pending, Taken(voucher, payment.signature, order, frontier)))

    def executed(self, outputs_root: bytes, number: int) -> tuple[Self, CallReceipt]:
        """The oldest call that waits gave this; batch `number` owes it. Its receipt is to be sent once this is written
        down."""
        taken = self.pending[0]
        receipt = CallReceipt(self.channel, self.count, taken.order, outputs_root, number)
        behind = self.receipts[taken.frontier.leaves - self.frontier.leaves :]
        after = replace(
            self, voucher=taken.voucher, signature=taken.signature, frontier=taken.frontier,
            receipts=(*behind, receipt), pending=self.pending[1:],
        )  # fmt: skip
        return after, receipt

    def refused(self) -> Self:
        """Without the calls that wait: each is to be signed anew."""
        return replace(self, pending=())

    def _acknowledged(self, voucher: Voucher, least: int) -> Frontier:
        """The frontier of the calls that a voucher acknowledges, `least` of them at least. Raises as `taken`."""
        if not least <= voucher.acked <= self.count:
            raise CallRefused(
                f"the voucher acknowledges {voucher.acked} calls, of {least} to {self.count} that it may",
                fix="Acknowledge the calls whose receipts came.",
            )
        if voucher.count - voucher.acked > self.offer.tail:
            raise ChannelBusy(f"{voucher.count - voucher.acked} calls would not be acknowledged, of {self.offer.tail}")
        frontier = self._at(voucher.acked)
        if frontier.root() != voucher.root:
            raise CallRefused(
                f"the voucher's root is not the one of the first {voucher.acked} calls",
                fix="Compare the receipts with what is signed: one of the two sides has another result.",
            )
        return frontier

    def _at(self, acked: int) -> Frontier:
        """The frontier of the first calls."""
        frontier = self.frontier.copy()
        for receipt in self.receipts[: acked - frontier.leaves]:
            frontier.append(call_hash(self.channel, receipt.index, receipt.order, result_of(receipt.outputs_root)))
        return frontier

    # ---- The end ----

    def check_last(self, voucher: Voucher, signature: bytes) -> None:
        """Raises ChannelBusy while calls wait; CallRefused unless a voucher is for what was executed, acknowledges all
        of it, can be paid, and is signed by the payer: it may be the last one."""
        if self.pending:
            raise ChannelBusy(f"{len(self.pending)} calls are under way")
        if voucher.channel != self.channel or (voucher.count, voucher.acked) != (self.count, self.count):
            raise CallRefused(
                f"the last voucher is for {voucher.count} calls and acknowledges {voucher.acked}, of {self.count}",
                fix="Sign one for all calls that were executed.",
            )
        if not self.amount <= voucher.amount <= self.paid + self.deposit:
            raise CallRefused(
                f"the last voucher is of {voucher.amount} wei, {self.amount} are owed",
                fix=f"Sign one of {self.amount}.",
            )
        if self._at(voucher.acked).root() != voucher.root:
            raise CallRefused(
                "the last voucher's root is not the one of all calls", fix="Compare the receipts with it."
            )
        if not is_signed_by(self.deal.payer, hash_of(self.domain, voucher), signature):
            raise CallRefused("the payer did not sign the voucher", fix=f"Sign it with the key of {self.deal.payer}.")

    # ---- Batches ----

    def sheet(self) -> Sheet | None:
        """What a commit brings of the channel; None: nothing was executed since the last one."""
        if self.voucher is None or self.voucher.count == self.first:
            return None
        tail = [Tail.of(receipt) for receipt in self.receipts]
        return Sheet.of(self.deal, self.voucher, self.signature, self.frontier, tail)

    def committed(self, count: int, amount: int) -> Self:
        """After a batch with so many calls of the channel, which came to so many wei in all."""
        return replace(self, first=count, paid=amount, deposit=self.deposit - (amount - self.paid))

    def funded(self, amount: int) -> Self:
        """With so many wei more in the deposit."""
        return replace(self, deposit=self.deposit + amount)
