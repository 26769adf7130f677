"""Batches of others: answer for the own share, open the answer, dispute what is wrong or withheld. Pure.

Not answering costs nothing; an answer that is not opened costs its bond. A verifier answers where each result of its
share is the one that the batch commits to: then it knows that no other root of the share can be justified. One that is
not is demanded, since a batch commits to hashes: whoever does not show it is convicted, and what is shown is
challenged. The first that convicts gets W, and half of the stake where nobody else differed.
"""

from collections.abc import Iterable, Sequence
from math import ceil

from eigentensor.channel.life import BatchLife, ShareAnswer
from eigentensor.channel.state import BatchState
from eigentensor.task import commitment
from eigentensor.task.candidates import DRAWS, candidates
from eigentensor_operator.batches.case import Case, Doubt, Drawn, Step
from eigentensor_operator.batches.own import may_seed
from eigentensor_operator.batches.state import Batches
from eigentensor_operator.policy import Code, Reason

#: Calls of a share that are demanded of those that are not served, one after the other: each is prepaid.
DEMANDED = 4
#: Seconds that it takes to find out that nobody serves the inputs of a call that was shown.
LOOKING = 20.0
#: Why a share is not answered for that its operator withholds, or that nobody could dispute.
_FAULTS = frozenset({Code.DATA, Code.MEMORY, Code.BINDINGS, Code.PROGRAM, Code.DISPUTE})

#: A step with the wei of a deposit, 0 for every other; or why nothing is answered.
Next = tuple[Step, int] | Reason | None


def drawn_of(
    mix: bytes, drawn: Sequence[tuple[str, int]], operator: str, executor: str, committed_at: int, block: int
) -> Drawn:
    """From the operator of each drawn seat, by index 16 g + c, and the block since which it has it (a zero one:
    nobody's): the index before which the fewest others may answer."""
    places: list[tuple[int, int, frozenset[str]]] = []
    for first in range(0, len(drawn), DRAWS):
        seen: set[str] = set()
        for index, candidate in candidates(drawn[first : first + DRAWS], executor, committed_at):
            if candidate == operator:
                places.append((len(seen), first + index, frozenset(seen)))
                break
            seen.add(candidate)
    if not places:
        return Drawn(mix, None, block=block)
    _, index, before = min(places, key=lambda place: place[:2])
    return Drawn(mix, index, before, block)


def withheld(batches: Batches, case: Case, life: BatchLife) -> Doubt | None:
    """The next call to be demanded of those that are not served until the time of the answers is nearly over."""
    is_drawn = life.mix is not None and case.drawn is not None and case.drawn.mix == life.mix
    if not is_drawn or case.fetched or case.seal or case.doubt or batches.head < _late(batches, life):
        return None
    demanded = {demand.number for demand in life.demands if demand.by == batches.policy.operator}
    rest = [number for number in case.withheld if number not in demanded]
    return Doubt(rest[0]) if rest and len(demanded) < DEMANDED and batches.head < life.demand_by else None


def _late(batches: Batches, life: BatchLife) -> int:
    """From this block on what is withheld is demanded: a call that is shown at the last moment leaves time to look at
    it, and to demand its inputs as well."""
    looking = ceil(LOOKING / batches.policy.block_seconds)
    return min(life.check_by, life.demand_by - life.clock - looking) - batches.policy.reserve


def next_step(batches: Batches, case: Case, life: BatchLife) -> Next:
    """What to do about somebody else's batch, beside games."""
    answer = life.answer_by(batches.policy.operator)
    match life.state:
        case BatchState.COMMITTED:
            return _committed(batches, case, life, answer)
        case BatchState.CONVICTED:
            return _convicted(batches, life, answer)
        case BatchState.FINAL if answer is not None and life.payout(answer):
            return Step.SETTLE, 0
        case _:
            return None


def _committed(batches: Batches, case: Case, life: BatchLife, answer: ShareAnswer | None) -> Next:
    head, patience = batches.head, batches.policy.patience
    if case.doubt is not None and (wanted := _doubt(batches, case, life, case.doubt)) is not None:
        return wanted
    if any(d.by == batches.policy.operator and head >= d.show_by for d in life.open_demands if d not in case.closed):
        return Step.DENOUNCE, 0
    if answer is None:
        return _unanswered(batches, case, life)
    if answer.root is None:
        return _open(batches, case, life, answer)
    demand = life.share_demands.get(answer.share)
    if demand is not None and demand.justified_at is None and head >= demand.since + life.clock:
        return Step.DENOUNCE_SHARE, 0
    if life.close_from is not None and head >= life.close_from + 2 * patience:
        return Step.CLOSE, 0
    return None


# ---- Answers ----


def _unanswered(batches: Batches, case: Case, life: BatchLife) -> Next:
    head, at = batches.head, batches.at
    if at is None or not life.leaves or not batches.policy.verify or not at.standing.seats:
        return None
    if life.mix is None:
        # An operator that dislikes the draw keeps silent about it: whoever may be paid for the check does not.
        patient = head >= life.seed_block + 2 * batches.policy.patience
        return (Step.SEED, 0) if patient and may_seed(batches, life) else None
    if head >= life.check_by or case.doubt is not None:
        return _served(batches, case, life)
    drawn = case.drawn
    if drawn is None or drawn.mix != life.mix:
        return Step.LOOK, 0
    if drawn.index is None or (case.unanswered is not None and case.unanswered.lasting):
        return None
    return _refuse(batches, life, drawn, drawn.index) or _answer(batches, case, life, drawn)


def _served(batches: Batches, case: Case, life: BatchLife) -> Next:
    """What is served of a share that is not served as a whole: fetched and executed all the same, since one wrong call
    convicts, and who withholds another one must not save it."""
    assert batches.at is not None
    at, unanswered, doubt = batches.at, case.unanswered, case.doubt
    is_known = case.executed or case.seal or (doubt is not None and (doubt.root is not None or doubt.is_outside))
    if is_known or unanswered is None or unanswered.code not in _FAULTS or batches.head >= life.demand_by:
        return None
    if at.testing or at.faulty or at.draining:
        return None
    if case.drawn is None or case.drawn.mix != life.mix:
        return Step.LOOK, 0
    if case.drawn.index is None:
        return None
    if not (case.fetched or case.withheld or unanswered.lasting):
        return Step.FETCH, 0
    if len(case.withheld) == len(life.numbers(case.drawn.index // DRAWS)):
        return None
    is_idle = not batches.doing(Step.EXECUTE) and (at.slack is None or at.slack >= life.offer.exec)
    return (Step.EXECUTE, 0) if is_idle else None


def _refuse(batches: Batches, life: BatchLife, drawn: Drawn, index: int) -> Reason | None:
    """Why nothing is answered at this head."""
    assert batches.at is not None
    at, standing = batches.at, batches.at.standing
    if at.faulty:
        return Reason(Code.DEVICE, "a device that gives the reference's bits", "it did not", lasting=False)
    if at.draining:
        return Reason(Code.DRAINING, "an operator that answers", "draining", lasting=False)
    if not standing.member:
        return Reason(Code.MEMBERSHIP, "a member of the operator set", "not a member", lasting=False)
    backing = standing.backing
    if backing.lasting < (needed := standing.seats * backing.seat_stake):
        return Reason(Code.SEATS, f"{needed} wei of stake for its seats", f"{backing.lasting} wei", lasting=False)
    if any(answer.share == index // DRAWS and answer.index < index for answer in life.answers.values()):
        return Reason(Code.RANK, "the lowest answer of its share", "a lower one", lasting=False)
    return None


def _answer(batches: Batches, case: Case, life: BatchLife, drawn: Drawn) -> Next:
    """Those whom others precede wait as long as they can, and step in for those that stay silent."""
    assert batches.at is not None
    head, at, policy = batches.head, batches.at, batches.policy
    if case.seal is not None:
        if (no := _refuse_bond(batches, life.bond)) is not None:
            return no
        missing = life.bond - batches.free
        return (Step.DEPOSIT, missing) if missing > 0 else (Step.ANSWER, 0)
    if at.testing:
        return None
    last = life.check_by - policy.reserve - life.offer.exec
    if drawn.before and head < last - policy.patience:
        return None
    if not case.fetched:
        return Step.FETCH, 0
    if batches.doing(Step.EXECUTE) or (at.slack is not None and at.slack < life.offer.exec):
        return None
    return Step.EXECUTE, 0


def _refuse_bond(batches: Batches, bond: int) -> Reason | None:
    assert batches.at is not None
    if bond > (free := batches.at.cap - batches.claims().collateral):
        return Reason(Code.CAP, f"{bond} wei", f"{free} wei", lasting=False)
    return None


def _open(batches: Batches, case: Case, life: BatchLife, answer: ShareAnswer) -> Next:
    """An answer is opened once the operator's roots are, or cannot be any more."""
    policy, head, seal = batches.policy, batches.head, case.seal
    if life.revealed_at is None and head < life.reveal_by:
        return None
    if head >= life.answers_by:
        return Reason(Code.LATE, f"block {life.answers_by}", f"block {head + 1}")
    hidden = life.batch, policy.operator, answer.slot
    sealed = seal and commitment(batches.domain, *hidden, seal.root, seal.salt)
    if sealed != answer.commitment:
        return Reason(Code.SEAL, answer.commitment.hex(), sealed.hex() if sealed else "no seal")
    return Step.REVEAL, 0


# ---- Disputes ----


def _doubt(batches: Batches, case: Case, life: BatchLife, doubt: Doubt) -> Next:
    """A call that is wrong or withheld: see it, then challenge it; who does not show it is denounced."""
    head, me = batches.head, batches.policy.operator
    if any(game.challenger == me for game in life.games.values()):
        return None  # one game decides
    about = [demand for demand in life.demands if doubt.is_about(demand)]
    waiting = [demand for demand in about if demand in life.open_demands]
    is_seen = not doubt.leaves and life.shown_call(doubt.number) is not None  # by somebody else's demand
    if waiting and not is_seen:
        return (Step.DENOUNCE, 0) if head >= waiting[0].show_by and waiting[0] not in case.closed else None
    if not about:
        return _demand(batches, doubt) if head < life.demand_by else None
    if head >= life.dispute_by:
        return None
    if doubt.is_outside:
        return Step.OUTSIDE, 0
    if doubt.root is None:
        return None if batches.at is None or batches.at.testing or batches.at.faulty else (Step.JUDGE, 0)
    missing = life.bond - batches.free
    return (Step.DEPOSIT, missing) if missing > 0 else (Step.CHALLENGE, 0)


def _demand(batches: Batches, doubt: Doubt) -> Next:
    """A demand pays for the call and each leaf in advance."""
    missing = (1 + len(doubt.leaves)) * batches.policy.parameters.g_chunk - batches.free
    return (Step.DEPOSIT, missing) if missing > 0 else (Step.DEMAND, 0)


def _convicted(batches: Batches, life: BatchLife, answer: ShareAnswer | None) -> Next:
    """What a conviction leaves to be done: the own bonds, and the slash if nobody else sees to it."""
    head, me, conviction = batches.head, batches.policy.operator, life.conviction
    if answer is not None and life.payout(answer):
        return Step.SETTLE, 0
    if any(idle_bonds(life, me)):
        return Step.REFUND_BOND, 0
    differed = answer is not None and answer.agrees is False
    if conviction is None or conviction.slashed_at is not None or not (differed or conviction.winner == me):
        return None
    return (Step.SLASH, 0) if life.since + batches.policy.patience <= head < life.lock_end else None


def idle_bonds(life: BatchLife, challenger: str) -> Iterable[int]:
    """The games of a challenger whose own bonds a conviction left where they are."""
    for game in life.games.values():
        if game.challenger == challenger and not (game.slot or game.counted or game.returned):
            yield game.number
