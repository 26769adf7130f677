"""An operator's own pools and batches: offer, begin, commit, show, be paid. Pure.

A batch is committed at half of its epoch, or when it or a channel's part of it is nearly as large as it may be; the
next one is begun before, so that receipts name it meanwhile. Where nothing was called it lapses, which costs nothing,
and none is begun until somebody wants calls.
"""

from eigentensor.channel import Offer
from eigentensor.channel.life import BatchLife
from eigentensor.channel.state import BatchState
from eigentensor.economics import shares
from eigentensor_operator.batches.case import Case, Step
from eigentensor_operator.batches.events import Serving
from eigentensor_operator.batches.state import Batches, Desk
from eigentensor_operator.calls.interface import COMMIT_GAS, FULL, Load
from eigentensor_operator.policy import ROUNDING, Code, Reason

WORTH = 4  #: times the market's price of a check that calls cost at least, for each verifier, of an early commit
REFUNDS = 16  #: lines that are refunded in one transaction
_SLOW = 4  # times the patience after which clients' refunds are sent, that anybody may send


# ---- Pools ----


def next_of_pool(batches: Batches, pool: bytes, serving: Serving) -> tuple[Step, int] | Reason | None:
    """What to do about an own pool, with the wei of a deposit; or why its next batch is not begun."""
    life, offer = batches.pools.pools.get(pool), serving.offer
    if _is_to_conclude(batches, pool, serving):
        return Step.CONCLUDE, 0
    if batches.is_resting or batches.at is None:
        return None
    standing = batches.at.standing
    if not standing.member:
        return Reason(Code.MEMBERSHIP, "a member of the operator set", "not a member", lasting=False)
    if life is None:
        return Step.OFFER, 0
    if life.is_over:
        return Reason(Code.CONVICTED, "a pool that goes on", "a batch of it was convicted before its commit")
    if not _wants(batches, pool, serving):
        return None
    if (no := _refuse_begin(batches, offer)) is not None:
        return no
    missing = batches.collateral(offer) - batches.free
    return (Step.DEPOSIT, missing) if missing > 0 else (Step.BEGIN, 0)


def _is_to_conclude(batches: Batches, pool: bytes, serving: Serving) -> bool:
    """Whether last vouchers are to be sent that their clients did not send: after a while, or before a commit, which
    would leave out calls that receipts promise."""
    if serving.concluding is None:
        return False
    waiting = batches.pools.uncommitted(pool, batches.head + 1)
    is_due = any(_is_due(batches, life, serving) for life in waiting[:1])
    return is_due or batches.head >= serving.concluding + _SLOW * batches.policy.patience


def _wants(batches: Batches, pool: bytes, serving: Serving) -> bool:
    """Whether the next batch is to be begun: at most two are uncommitted."""
    load = serving.load
    waiting = batches.pools.uncommitted(pool, batches.head + 1)
    if len(waiting) > 1 or not (serving.is_wanted or load.leaves):
        return False
    return not waiting or _is_drained(batches, waiting[0]) or _is_due(batches, waiting[0], serving)


def _is_drained(batches: Batches, life: BatchLife) -> bool:
    case = batches.cases.get(life.batch)
    return case is not None and case.drained


def _refuse_begin(batches: Batches, offer: Offer) -> Reason | None:
    """Why a batch cannot be begun at this head."""
    assert batches.at is not None
    p, at, standing = batches.policy.parameters, batches.at, batches.at.standing
    if standing.backing.paused:
        return Reason(Code.CORE, "an EigenLayer that can slash", "slashing is paused", lasting=False)
    lifetime = shares.lifetime(p, offer.exec, offer.epoch)
    if lifetime > standing.delay:
        return Reason(Code.LIFETIME, f"stake for {lifetime} blocks", f"{standing.delay} blocks", lasting=False)
    if standing.other_seats < p.other_seats:
        needed = f"{p.other_seats} seats of others"
        return Reason(Code.SEATS, needed, f"{standing.other_seats} seats", lasting=False)
    stake, promised = shares.stake(p, offer) + ROUNDING, batches.claims().stake + at.promised.stake
    if stake > (free := standing.stake - promised):
        return Reason(Code.STAKE, f"{stake} wei", f"{free} wei", lasting=False)
    if stake > (free := standing.stake_cap - standing.locked - promised):
        return Reason(Code.STAKE_CAP, f"{stake} wei", f"{free} wei", lasting=False)
    if (held := batches.collateral(offer)) > (free := at.cap - batches.claims().collateral):
        return Reason(Code.CAP, f"{held} wei", f"{free} wei", lasting=False)
    return None


def _is_due(batches: Batches, life: BatchLife, serving: Serving) -> bool:
    """Whether a batch is to be committed: at half of its epoch, or when it or a channel's part of it is nearly full.
    One in which nothing was called is not; but what comes after it is, when it is not served any more."""
    head, offer, load = batches.head, life.offer, serving.load
    if not load.leaves:
        return head + 1 >= life.commit_by - batches.policy.reserve
    is_short = serving.is_short and _is_worth_it(batches, offer, load)
    return head >= life.begun_at + offer.epoch // 2 or _is_full(offer, load) or is_short


def _is_worth_it(batches: Batches, offer: Offer, load: Load) -> bool:
    """Whether the calls cost more than the messages of a batch: clients choose what their deals allow, and so must not
    choose how often one is committed."""
    return load.amount >= WORTH * offer.verifiers * batches.policy.parameters.g_chk


def _is_full(offer: Offer, load: Load) -> bool:
    most, part = FULL
    capacity = shares.capacity(offer.check_rate, offer.verifiers)
    sizes = ((load.leaves, capacity), (load.amount, offer.most), (load.gas, COMMIT_GAS))
    return any(most * size >= part * limit for size, limit in sizes)


# ---- Batches ----


def next_step(batches: Batches, case: Case, life: BatchLife) -> Step | None:
    """What to do about an own batch, beside games and what is demanded."""
    head, patience = batches.head, batches.policy.patience
    if life.close_from is not None and head >= life.close_from + patience:
        return Step.CLOSE
    match life.state:
        case BatchState.BEGUN:
            return _commit(batches, case, life)
        case BatchState.COMMITTED:
            return _checked(batches, life)
        case BatchState.CONVICTED if not case.halted:
            return Step.HALT
        case BatchState.FINAL if any(_is_won(life, index) for index in life.answers) and head >= life.since + patience:
            return Step.SETTLE
    is_owing = next(life.unrefunded(), None) is not None
    return Step.REFUND if is_owing and head >= life.since + _SLOW * patience else None


def _commit(batches: Batches, case: Case, life: BatchLife) -> Step | None:
    """When it is due and the next one is begun, or cannot be; shortly before the end of its time in any case."""
    pool = batches.pools.pool_of[life.batch]
    waiting = batches.pools.uncommitted(pool, batches.head + 1)
    if not waiting or waiting[0] is not life or batches.pools.pools[pool].is_over:
        return None
    if case.drained:
        return Step.COMMIT
    serving = batches.serving(pool)
    if (
        serving is None
        or serving.concluding is not None
        or not serving.load.leaves
        or not _is_due(batches, life, serving)
    ):
        return None
    is_last_call = batches.head + 1 >= life.commit_by - batches.policy.reserve
    is_followed = batches.pools.pools[pool].begun > life.number
    return Step.COMMIT if is_last_call or is_followed or not _is_followable(batches, pool) else None


def _is_followable(batches: Batches, pool: bytes) -> bool:
    """Whether the next batch may still be begun before a commit."""
    assert batches.at is not None
    desk = batches.desks.get(pool, Desk())
    return not (batches.at.draining or batches.at.faulty) and desk.refused is None


def _checked(batches: Batches, life: BatchLife) -> Step | None:
    """Without a seed the amounts go back to the clients. The roots of the shares are revealed where somebody answered:
    otherwise every answer agrees, that of a verifier that executed nothing too."""
    head, patience = batches.head, batches.policy.patience
    if life.leaves and life.mix is None:
        return Step.SEED if may_seed(batches, life) and head >= life.seed_block + patience else None
    is_open = life.check_by <= head < life.reveal_by
    return Step.REVEAL_ROOTS if life.answers and life.revealed_at is None and is_open else None


def may_seed(batches: Batches, life: BatchLife) -> bool:
    """Whether the seed can still be recorded, and is not being recorded for another batch."""
    known = batches.pools.batches
    sent = (known[name] for name, case in batches.cases.items() if case.is_doing(Step.SEED) and name in known)
    is_sent = any(other.committed_at is not None and other.seed_block == life.seed_block for other in sent)
    return not is_sent and life.seed_block < batches.head + 1 <= life.record_by


def _is_won(life: BatchLife, index: int) -> bool:
    """Whether the operator gets a part of an answer's bond: it differed, and proved nothing."""
    answer = life.answers[index]
    return answer.agrees is False and answer.settled is None and not answer.is_lost


def won(life: BatchLife) -> list[int]:
    """The indices of answers whose bonds the operator gets a part of."""
    return sorted(index for index in life.answers if _is_won(life, index))


def is_to_show(case: Case, life: BatchLife, head: int) -> bool:
    """Whether a call is demanded that is still to be shown."""
    return any(demand not in case.closed and head < demand.show_by for demand in life.open_demands)


def is_to_justify(life: BatchLife, head: int) -> bool:
    """Whether a share is still to be justified."""
    return any(head < demand.since + life.clock for demand in life.open_share_demands)
