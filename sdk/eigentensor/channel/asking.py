"""How a channel is agreed over HTTP: `POST /v1/deals` takes a `DealRequest` and gives a `SignedDeal`."""

from dataclasses import dataclass
from typing import Annotated

from eigentensor.channel.deals import Deal, Struct
from eigentensor.channel.signed import channel_of
from eigentensor.errors import CallRefused
from eigentensor.task.order import Domain
from eigentensor.task.signatures import is_signed_by
from eigentensor.wire import Address, Data, Hash, Wei


@dataclass(frozen=True, slots=True)
class DealRequest(Struct):
    """The terms that a client asks for; the operator adds a nonce, and the last block of the opening."""

    pool: Annotated[Hash, "bytes32"]
    """The hash of the offer."""
    client: Annotated[Address, "address"]
    """Opens the channel, and gets back what is not spent."""
    payer: Annotated[Address, "address"]
    """Signs vouchers."""
    most: Annotated[Wei, "uint256"]
    """The most that the channel's calls cost in one batch."""
    value_at_risk: Annotated[Wei, "uint256"]
    """What wrong results could gain in one batch beyond their prices."""


@dataclass(frozen=True, slots=True)
class SignedDeal(Struct):
    """A deal with the signature of the offer's signer."""

    deal: Deal
    """The terms of the channel."""
    signature: Data
    """The offer's signer's, of the deal."""

    def check(self, domain: Domain, signer: str, request: DealRequest, block: int) -> None:
        """Raises CallRefused unless this is what was asked for, signed, and may still be opened in `block`."""
        deal = self.deal
        for name in ("pool", "client", "payer", "most", "value_at_risk"):
            ours, theirs = getattr(request, name), getattr(deal, name)
            if (ours.lower() != theirs.lower()) if isinstance(ours, str) else ours != theirs:
                raise CallRefused(f"the deal has another {name} than was asked for: {theirs!r}", fix=_ANOTHER)
        if not is_signed_by(signer, channel_of(domain, deal), self.signature):
            raise CallRefused("the offer's signer did not sign the deal", fix=_ANOTHER)
        if deal.open_by < block:
            raise CallRefused(f"the deal had to be opened until block {deal.open_by}", fix="Ask for another deal.")


_ANOTHER = "Choose another operator."
