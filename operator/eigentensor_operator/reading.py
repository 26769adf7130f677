"""Where the operator stands, as the chain says."""

import math
from dataclasses import replace

from eigentensor import chain as c
from eigentensor import economics
from eigentensor.task import State
from eigentensor_operator.policy import Backing, Policy, Standing
from eigentensor_operator.state import Operator

ASK = 8  #: blocks after which the chain is asked again where no event said that anything changed
_SECONDS, _MOST = 16.0, 64  # that takes at least so long, or so many blocks where they are faster


def standing_at(chain: c.Chain, operator: Operator, block: int, *, quiet: bool) -> Standing:
    """Where the operator stands at the head `block`. Raises ChainError.

    `quiet`: since it was read last the market showed no event. Then it is not asked again for `rest` blocks, unless
    something is to be weighed: that a block is there, and all that follows from it, costs no question.
    """
    last, rested = operator.standing, rest(operator.policy)
    if last is not None and quiet and last.asked <= block < last.asked + rested and not operator.is_weighing:
        return replace(last, block=block)
    return standing_of(chain, operator.policy, block, chain.address, last)


def rest(policy: Policy) -> int:
    """Blocks after which the chain is asked again where no event said that anything changed."""
    return min(_MOST, max(ASK, math.ceil(_SECONDS / policy.block_seconds)))


def deadlines_of(chain: c.Reader, operator: Operator) -> dict[bytes, int]:
    """The chain's deadlines of own results of which leaves were demanded. Raises ChainError."""
    revealed = (case for case in operator.cases.values() if operator.mine(case) and case.state is State.REVEALED)
    return {case.uuid: chain.market.deadline_of(case.uuid) for case in revealed if case.life.demanded is not None}


def standing_of(chain: c.Reader, policy: Policy, block: int, signer: str, last: Standing | None = None) -> Standing:
    """Where the operator stands at the head `block`, if `signer` acts for it. Raises ChainError.

    What EigenLayer says of all that backs it is taken from `last` where that was asked less than `rest` blocks ago and
    the operator has the same seats, as the same member or stranger.
    """
    operator, delay = policy.operator, chain.stake.stake_delay()
    account = chain.market.balance_of(operator)
    named, cap, stake_cap = chain.stake.signer_of(operator)
    end = block + min(delay, economics.lifetime(policy.parameters, policy.parameters.max_exec))
    shares = (chain.stake.free_stake(operator, end), chain.stake.locked_stake(operator), stake_cap)
    rate = chain.stake.worth_of(economics.WAD)
    free, locked, most = (amount * rate // economics.WAD for amount in shares)
    standing = Standing(
        block, account.balance, account.collateral, cap, delay,
        member=chain.stake.is_member(operator) and named == signer,
        stake=free, locked=locked, stake_cap=most,
        seats=chain.stake.seats_of(operator), other_seats=chain.stake.other_seats(operator),
        gas_price=chain.node.gas_price(), asked=block,
    )  # fmt: skip
    same = last is not None and (last.seats, last.member) == (standing.seats, standing.member)
    if last is not None and same and last.backing.asked <= block < last.backing.asked + rest(policy):
        return replace(standing, backing=last.backing)
    return replace(standing, backing=_backing_of(chain, operator, block))


def _backing_of(chain: c.Reader, operator: str, block: int) -> Backing:
    deallocating, gone_by = chain.stake.deallocation_of(operator)
    return Backing(
        asked=block,
        seat_stake=chain.stake.seat_stake(),
        lasting=chain.stake.lasting_stake(operator),
        queued=chain.stake.queued_stake(operator),
        deallocating=deallocating,
        gone_by=gone_by,
        magnitude=chain.stake.magnitude_of(operator),
        paused=chain.stake.is_slashing_paused(),
    )
