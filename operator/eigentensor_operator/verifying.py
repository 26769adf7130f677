"""Tasks of others that are drawn: answer for the own seats, open the answer, take what it is due. Pure.

Not answering costs nothing, an answer that is not opened costs its bond.
"""

from collections.abc import Iterable

from eigentensor.program.cost import Needs
from eigentensor.task import Answer, State, commitment
from eigentensor.task.candidates import candidates
from eigentensor_operator import policy as rules
from eigentensor_operator.case import Candidacy, Case, Step
from eigentensor_operator.executing import may_seed
from eigentensor_operator.policy import Code, Reason, Standing
from eigentensor_operator.preparing import may_prepare
from eigentensor_operator.state import Operator
from eigentensor_operator.taking import may_download


def candidacy_of(
    mix: bytes, drawn: Iterable[tuple[str, int]], operator: str, executor: str, committed_at: int
) -> Candidacy:
    """From the operator of each drawn seat, by index, and the block since which it has it (a zero one: nobody's)."""
    before: set[str] = set()
    for index, candidate in candidates(drawn, executor, committed_at):
        if candidate == operator:
            return Candidacy(mix, index, frozenset(before))
        before.add(candidate)
    return Candidacy(mix, None, frozenset(before))


def next_step(operator: Operator, case: Case) -> Step | Reason | None:
    """What to do about somebody else's task, or why no answer is given or opened."""
    answer = operator.answer_in(case)
    if answer is not None:
        return _open(operator, case, answer) if answer.root is None else _collect(operator, case, answer)
    if case.state is not State.COMMITTED or not operator.policy.verify or not _has_seats(operator):
        return None
    drawn, head = case.life.drawn, operator.head
    if drawn is None:
        # An executor that dislikes the draw keeps silent about it: whoever may be paid for the check does not.
        patient = head >= case.life.seed_block + 2 * operator.policy.patience
        return Step.SEED if patient and may_seed(operator, case) else None
    return _check(operator, case) if drawn and head < case.life.check_by else None


def _has_seats(operator: Operator) -> bool:
    return operator.standing is not None and operator.standing.seats > 0


def _check(operator: Operator, case: Case) -> Step | Reason | None:
    standing = operator.standing
    assert standing is not None
    candidacy = case.candidacy
    if candidacy is None or candidacy.mix != case.life.mix:
        return Step.LOOK
    if candidacy.index is None or (case.unanswered is not None and case.unanswered.lasting):
        return None
    if operator.faulty is not None:
        return operator.faulty
    if operator.draining:
        return Reason(Code.DRAINING, "an operator that answers", "draining", lasting=False)
    if not standing.member:
        return Reason(Code.MEMBERSHIP, "a member of the operator set", "not a member", lasting=False)
    backing = standing.backing
    if backing.lasting < (needed := standing.seats * backing.seat_stake):
        return Reason(Code.SEATS, f"{needed} wei of stake for its seats", f"{backing.lasting} wei", lasting=False)
    lower = sum(answer.index < candidacy.index for answer in case.life.answers.values())
    if lower >= case.order.verifiers:
        return Reason(Code.RANK, f"one of the {case.order.verifiers} lowest answers", f"{lower} lower ones", False)
    no = rules.refuse_deposit(standing, operator.bond(case), operator.claims)
    if no is not None:
        return no
    if case.seal is not None:
        return Step.ANSWER
    if operator.testing:
        return None
    if case.needs is None:
        return Step.INSPECT if may_download(operator) else None
    return _prepare(operator, case, case.needs, standing, candidacy.rank)


def _prepare(operator: Operator, case: Case, needs: Needs, standing: Standing, rank: int) -> Step | Reason | None:
    """The work of an answer, behind what was promised. Those whom enough others precede wait as long as they can."""
    policy, left, compiling = operator.policy, case.life.check_by - operator.head, operator.compiling(case)
    no = rules.refuse_check(policy, case.order, standing, needs, case.life.price or 0, left, compiling)
    if no is not None:
        return no
    work = policy.blocks(needs) + policy.in_blocks(compiling)
    spare = left - work - policy.reserve
    if rank >= case.order.verifiers and spare > policy.patience:
        return None
    slack = operator.slack
    if slack is not None and slack < work:
        return None
    if not case.fetched:
        return Step.FETCH if may_download(operator) else None
    if not operator.is_prepared(case):
        return Step.PREPARE if may_prepare(operator, case) else None
    return None if operator.doing(Step.EXECUTE) else Step.EXECUTE


def _open(operator: Operator, case: Case, answer: Answer) -> Step | Reason | None:
    """An answer is opened once the executor's result is, or cannot be any more."""
    policy, head, state = operator.policy, operator.head, case.state
    if answer.is_over or (state.is_terminal and state is not State.CONVICTED):
        return None
    if case.life.revealed_at is None and head < case.life.reveal_by:
        return None
    if head >= (deadline := case.life.answers_by):
        return Reason(Code.LATE, f"block {deadline}", f"block {head + 1}")
    slot, seal = answer.index + 1, case.seal
    sealed = seal and commitment(policy.domain, case.uuid, policy.operator, slot, seal.outputs_root, seal.salt)
    if sealed != answer.commitment:
        return Reason(Code.SEAL, answer.commitment.hex(), sealed.hex() if sealed else "no seal")
    return Step.REVEAL


def _collect(operator: Operator, case: Case, answer: Answer) -> Step | None:
    """What follows an open answer: end the task if nobody does, take what the answer is due, see to the slash."""
    life, head, patience = case.life, operator.head, operator.policy.patience
    owed = life.is_owed(answer)
    match life.state:
        case State.COMMITTED | State.REVEALED:
            return Step.CLOSE if head >= case.deadline + 2 * patience and not life.open_games else None
        case State.FINAL if owed:
            return Step.SETTLE
        case State.CONVICTED if head >= life.answers_by and owed:
            return Step.SETTLE
        case State.CONVICTED if head >= life.answers_by + patience and life.conviction and not life.conviction.slash:
            return Step.SLASH if answer.index in life.differing and head < life.end else None
        case _:
            return None
