"""Tasks that this operator accepted: execute, commit, wait for the draw, reveal, defend, be paid. Pure."""

from eigentensor.task import State, commitment
from eigentensor_operator.case import PAUSE, Case, Step
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.state import Operator


def next_step(operator: Operator, case: Case) -> Step | Reason | None:
    """What to do about an own task, or why it is given up, or None where there is nothing to do."""
    policy, head = operator.policy, operator.head
    deadline = case.deadline
    overdue = head >= deadline + policy.patience
    match case.state:
        case State.ACCEPTED | State.COMMITTED if case.dropped:
            return Step.CLOSE if overdue and not _would_convict(operator, case) else None
        case State.ACCEPTED | State.COMMITTED if head >= deadline:
            code = Code.LATE if case.state is State.ACCEPTED or case.life.mix else Code.SEED
            return Reason(code, f"block {deadline}", f"block {head + 1}")
        case State.ACCEPTED:
            return _execute(operator, case)
        case State.COMMITTED:
            return _reveal(operator, case)
        case State.REVEALED if case.demand is not None and head < deadline:
            return Step.SHOW
        case State.REVEALED if overdue and not case.life.open_games and case.demand is None:
            return Step.CLOSE
        case State.CONVICTED if not case.halted:
            return Step.HALT
        case _:
            return None


def _execute(operator: Operator, case: Case) -> Step | None:
    """Whatever is missing to commit. The device executes one task at a time."""
    if case.seal is not None:
        return Step.COMMIT
    if operator.testing or operator.faulty is not None:  # late costs the penalty, wrong costs the stake
        return None
    if case.needs is None:
        return Step.INSPECT
    if not case.fetched:
        return Step.FETCH
    return None if operator.doing(Step.EXECUTE) else Step.EXECUTE


def _reveal(operator: Operator, case: Case) -> Step | Reason | None:
    """When the draw is known and can hardly change any more; of a drawn task, when nobody may answer any more."""
    policy, head, seed_block = operator.policy, operator.head, case.life.seed_block
    sealed = case.seal and commitment(
        policy.domain, case.uuid, policy.operator, 0, case.seal.outputs_root, case.seal.salt
    )
    if sealed != case.life.commitment:
        return Reason(Code.SEAL, (case.life.commitment or b"").hex(), sealed.hex() if sealed else "no seal")
    drawn = case.life.drawn
    if drawn is None:
        return Step.SEED if head >= seed_block + policy.patience and may_seed(operator, case) else None
    first = min(seed_block + policy.parameters.confirmations, case.life.reveal_by - policy.reserve)
    if drawn and head < case.life.check_by:
        return _reveal_early(operator, case, first)
    return Step.REVEAL if head >= first else None


def _reveal_early(operator: Operator, case: Case, first: int) -> Step | None:
    """Before the end of the answers' time: when all have answered that may, and hardly a reorganisation undoes that.
    Where somebody may answer after all, a reveal shows the result to whoever copies or exposes it."""
    life, head, candidacy = case.life, operator.head, case.candidacy
    if not life.answers:
        return None
    if candidacy is None or candidacy.mix != life.mix:
        return Step.LOOK if head + PAUSE + operator.policy.reserve < life.check_by else None  # the reveal waits for it
    if not candidacy.before <= {answer.operator for answer in life.answers.values()}:
        return None
    over = max(candidacy.block, *(answer.block for answer in life.answers.values()))
    return Step.REVEAL if head >= max(first, over + operator.policy.parameters.confirmations) else None


def may_seed(operator: Operator, case: Case) -> bool:
    """Whether the seed can still be recorded, and is not being recorded for another task."""
    life, others = case.life, operator.cases.values() if operator.doing(Step.SEED) else ()
    is_sent = any(other.doing is Step.SEED and other.life.seed_block == life.seed_block for other in others)
    return not is_sent and life.seed_block < operator.head + 1 <= life.record_by


def _would_convict(operator: Operator, case: Case) -> bool:
    """Whether ending the task would convict this operator: that is left to others."""
    return case.state is State.COMMITTED and case.life.drawn is True
