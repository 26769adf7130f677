"""Whether a client opens a channel on what an operator offers: decided before anything is signed or paid. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eigentensor.chain.call_views import Pool
from eigentensor.channel import channel_of, is_signed_by, pool_of
from eigentensor.channel.calls import DealRequest, ProgramQuote, Quote, SignedDeal
from eigentensor.channel.state import BatchState
from eigentensor.economics import Parameters, shares
from eigentensor.errors import CallRefused, ChannelSpent, TermsRefused
from eigentensor.task import Domain

_SOON = 8  # of an epoch, the last part: the operator serves no more for a batch then
_ELSEWHERE = "Choose another operator."


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client wants of a channel. Amounts are wei."""

    deposit: int
    max_price: int | None = None
    """The most that a call may cost; None: whatever the offer has."""
    programs: tuple[bytes, ...] = ()
    """Programs that are to be called; those that are asked for later are not among them."""
    most: int | None = None
    """The most that the calls of one batch cost; None: the deposit, as far as the offer goes."""
    value_at_risk: int = 0
    """What wrong results could gain the operator in one batch beyond their prices."""
    repeat: int = field(default=1, kw_only=True)
    """The most repeats of a call."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the chain says of an offer, in block `block`. `stake` are shares of the operator that are locked for the
    batch at hand, or free for the next one where none is begun; `needed` those that a batch locks."""

    block: int
    pool: Pool
    state: BatchState
    stake: int
    needed: int
    paused: bool


def choose(quotes: Sequence[Quote], wish: Wish, domain: Domain, say: Callable[[int], str]) -> Quote:
    """The first quote that a wish fits. `say` writes an amount.

    Raises CallRefused for a program that is not offered, or not ready; TermsRefused for a price, a deposit, another
    market: of the first quote, where none fits.
    """
    if not quotes:
        raise CallRefused("the operator offers no calls", fix=_ELSEWHERE)
    refusals = []
    for quote in quotes:
        try:
            check(quote, wish, domain, say)
        except (CallRefused, TermsRefused) as error:
            refusals.append(error)
        else:
            return quote
    raise refusals[0]


def check(quote: Quote, wish: Wish, domain: Domain, say: Callable[[int], str]) -> None:
    """Raises as `choose`, of one quote."""
    offer = quote.offer
    if (quote.chain_id, quote.channels.lower()) != (domain.chain_id, domain.market.lower()):
        raise TermsRefused(f"the operator serves market {quote.channels} of chain {quote.chain_id}", fix=_ELSEWHERE)
    if quote.pool != pool_of(domain, offer):
        raise TermsRefused("the operator's quote names another pool than its offer is", fix=_ELSEWHERE)
    if wish.value_at_risk > offer.risk_each:
        raise TermsRefused(
            f"value at risk {say(wish.value_at_risk)} is more than the offer's {say(offer.risk_each)}", fix=_ELSEWHERE
        )
    priced = [quoted(quote, program, wish.repeat).price_of(wish.repeat) for program in wish.programs]
    if quote.listed is None:
        raise TermsRefused("the operator quotes other programs than its offer names", fix=_ELSEWHERE)
    price = max(priced, default=min((one.price for one in quote.programs), default=offer.max_price))
    if price > offer.max_price:
        raise TermsRefused(f"a call is to cost {say(price)}, more than the offer's own {say(offer.max_price)}")
    if wish.max_price is not None and price > wish.max_price:
        raise TermsRefused(
            f"a call costs {say(price)}, more than {say(wish.max_price)}", fix="Raise max_price, or ask another one."
        )
    if price > wish.deposit:
        raise ChannelSpent(
            f"a call costs {say(price)}, the deposit is {say(wish.deposit)}",
            price - wish.deposit,
            fix="Raise the deposit.",
        )


def quoted(quote: Quote, program: bytes, repeat: int = 1) -> ProgramQuote:
    """The quote of a program. Raises CallRefused where it is not offered with so many repeats, or is not ready."""
    one = quote.quote_of(program)
    if one is None:
        offered = ", ".join(each.program.hex() for each in quote.programs) or "none"
        raise CallRefused(
            f"the operator does not execute program {program.hex()}; it offers {offered}",
            fix="Whoever runs the operator adds it to its programs, in a new offer.",
        )
    if repeat > one.repeat:
        raise CallRefused(f"{repeat} repeats are more than the operator's {one.repeat}", fix="Ask for fewer at once.")
    if not one.is_warm:
        raise CallRefused(
            f"the operator offers program {program.hex()}, but has not compiled it yet", fix="Ask again in a moment."
        )
    return one


def check_chain(quote: Quote, wish: Wish, facts: Facts) -> None:
    """Raises TermsRefused for an offer that no stake stands behind, CallRefused for a pool that takes no channels."""
    pool, offer = facts.pool, quote.offer
    if not pool.offered or pool.over:
        raise CallRefused(f"pool {quote.pool.hex()} is {'over' if pool.over else 'not on chain'}", fix=_ELSEWHERE)
    if facts.paused:
        raise TermsRefused("EigenLayer's slashing is paused: no stake stands behind calls now", fix="Ask later.")
    if facts.stake < facts.needed:
        raise TermsRefused(
            f"operator {offer.operator} has {facts.stake} shares of stake for a batch, {facts.needed} are needed",
            fix=_ELSEWHERE,
        )
    if pool.reserved + wish.value_at_risk > offer.risk_all:
        raise TermsRefused("open channels put at risk already what the pool's stake was sized for", fix=_ELSEWHERE)


def check_deal(signed: SignedDeal, domain: Domain, signer: str, request: DealRequest, block: int) -> None:
    """Raises CallRefused unless a deal is what was asked for, signed, and may still be opened in `block`."""
    deal = signed.deal
    for name in ("pool", "client", "payer", "most", "value_at_risk"):
        ours, theirs = getattr(request, name), getattr(deal, name)
        if (ours.lower() != theirs.lower()) if isinstance(ours, str) else ours != theirs:
            raise CallRefused(f"the deal has another {name} than was asked for: {theirs!r}", fix=_ELSEWHERE)
    if not is_signed_by(signer, channel_of(domain, deal), signed.signature):
        raise CallRefused("the offer's signer did not sign the deal", fix=_ELSEWHERE)
    if deal.open_by < block:
        raise CallRefused(f"the deal had to be opened until block {deal.open_by}", fix="Ask for another deal.")


def is_serving(quote: Quote, facts: Facts) -> bool:
    """Whether calls stand in a batch now that is begun and does not end soon: channels are opened while one is."""
    left = quote.commit_by - facts.block
    return facts.state is BatchState.BEGUN and left >= max(1, quote.offer.epoch // _SOON)


def needed_stake(p: Parameters, quote: Quote) -> int:
    """Wei of stake that stand behind a batch of an offer."""
    return shares.stake(p, quote.offer)


def most_of(quote: Quote, wish: Wish) -> int:
    """The most that a deal is asked to let calls of one batch cost."""
    return min(quote.offer.most, wish.deposit if wish.most is None else wish.most)
