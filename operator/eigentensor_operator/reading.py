"""What the chain shows, in the machine's words."""

from dataclasses import replace
from typing import Any

from eigentensor import chain as c
from eigentensor import economics
from eigentensor.chain import State
from eigentensor_operator.case import INCIDENTS, Fact
from eigentensor_operator.events import Noted, Seen
from eigentensor_operator.policy import Policy, Standing


def seen_of(event: c.Event) -> Seen | Noted | None:
    """What an event means to the machine; None for those that bear on no task."""
    block = event.place.block
    match event:
        case c.Seeded():
            return Noted(event)
        case c.Posted():
            return Seen(event.task, Fact(State.OPEN, block), event.order)
        case c.Accepted():
            fact = Fact(State.ACCEPTED, block, event.executor, price=event.price)
        case c.Committed():
            fact = Fact(State.COMMITTED, block, claim=event.commitment)
        case c.Revealed(slot=0):
            fact = Fact(State.REVEALED, block, claim=event.outputs_root)
        case c.Closed() | c.Convicted() | c.Cancelled() | c.Expired() | c.Failed():
            fact = Fact(_ENDS[type(event)], block)
        case c.TaskEvent() if isinstance(event, (*INCIDENTS, c.Opened, c.Moved, c.Ended)):
            return Noted(event)
        case _:
            return None
    return Seen(event.task, fact)


_ENDS: dict[type[c.Event], State] = {
    c.Closed: State.FINAL,
    c.Convicted: State.CONVICTED,
    c.Cancelled: State.CANCELLED,
    c.Expired: State.EXPIRED,
    c.Failed: State.FAILED,
}


ASK = 8  #: blocks after which EigenLayer is asked again
_ASKED = ("seat_stake", "lasting", "queued", "deallocating", "gone_by", "magnitude", "paused", "asked")


def standing_of(chain: c.Chain, policy: Policy, block: int, last: Standing | None = None) -> Standing:
    """Where the operator stands at the head `block`. Raises ChainError.

    What EigenLayer says of the stake as a whole is taken from `last` if it was asked less than ASK blocks ago.
    """
    operator, delay = policy.operator, chain.stake_delay()
    account = chain.balance_of(operator)
    signer, cap, stake_cap = chain.signer_of(operator)
    end = block + min(delay, economics.lifetime(policy.parameters, policy.parameters.max_exec))
    shares = (chain.free_stake(operator, end), chain.locked_stake(operator), stake_cap)
    rate = chain.worth_of(economics.WAD)
    free, locked, most = (amount * rate // economics.WAD for amount in shares)
    standing = Standing(
        block, account.balance, account.collateral, cap, delay,
        member=chain.is_member(operator) and signer == chain.address,
        stake=free, locked=locked, stake_cap=most,
        seats=chain.seats_of(operator), other_seats=chain.other_seats(operator),
    )  # fmt: skip
    if last is not None and last.asked <= block < last.asked + ASK:
        known: dict[str, Any] = {name: getattr(last, name) for name in _ASKED}
        return replace(standing, **known)
    deallocating, gone_by = chain.deallocation_of(operator)
    return replace(
        standing, seat_stake=chain.seat_stake(), lasting=chain.lasting_stake(operator),
        queued=chain.queued_stake(operator), deallocating=deallocating, gone_by=gone_by,
        magnitude=chain.magnitude_of(operator), paused=chain.is_slashing_paused(), asked=block,
    )  # fmt: skip
