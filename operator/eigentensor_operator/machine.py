"""What to do next: pure. `step` takes what happened and says what to do; it knows no clock, network or randomness.

Chain events only add facts; decisions follow at the head of the chain (`Head`) and when something asked for is done.
Everything that must survive a restart is in `Case` and is written down before the actions of the same step are done.
"""

from collections.abc import Mapping
from dataclasses import replace

from eigentensor import task as t
from eigentensor.dispute import Position, deadline_of
from eigentensor.task import Life, State
from eigentensor_operator import executing, preparing, taking, verifying
from eigentensor_operator.case import BESIDE, PAUSE, SENT, URGENT, Case, Play, Step
from eigentensor_operator.events import (
    Checked,
    Do,
    Done,
    Drain,
    Event,
    Executed,
    Head,
    Inspected,
    Looked,
    Outcome,
    RolledBack,
    Undone,
)
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.state import Operator

DELIVERY = 10_000  # blocks after the payment in which a result is still offered to the gateway
PROVEN = 4096  # programs that are known to run here
_JUDGING = (Step.INSPECT, Step.FETCH, Step.PREPARE, Step.EXECUTE)
_SUITS = (Step.FETCH, Step.PREPARE, Step.ACCEPT)  # what is done about an open task that nothing speaks against


def step(operator: Operator, event: Event) -> tuple[Operator, tuple[Do, ...]]:
    """The state after `event`, and what to do now."""
    operator = _absorb(operator, event)
    is_fact = isinstance(event, t.Event | RolledBack)
    return (operator, ()) if is_fact or operator.standing is None else _decide(operator)


# ---- absorbing: facts, never decisions ----


def _absorb(operator: Operator, event: Event) -> Operator:
    match event:
        case Head(standing, deadlines, beside):
            asked = {u: replace(operator.cases[u], due=by) for u, by in deadlines.items() if u in operator.cases}
            return replace(operator, standing=standing, beside=beside, cases={**operator.cases, **asked})
        case Checked(fault):
            known = operator.faulty if operator.faulty and operator.faulty.lasting else None
            return replace(operator, testing=False, faulty=known or fault)
        case Drain():
            return replace(operator, draining=True)
        case RolledBack(block):
            return replace(operator, cases={u: case.rolled_back(block) for u, case in operator.cases.items()})
        case t.Event():
            return _happened(operator, event)
        case _:
            return _concluded(operator, event)


def _happened(operator: Operator, event: t.Event) -> Operator:
    """A task is known from its order on; a seed is one of all tasks that wait for its block."""
    match event:
        case t.Posted() if event.task not in operator.cases:
            case = Case(Life(event.task, event.order, operator.policy.parameters))
        case t.TaskEvent() if event.task in operator.cases:
            case = operator.cases[event.task]
        case t.Seeded():
            return replace(operator, cases={u: case.stepped(event) for u, case in operator.cases.items()})
        case _:
            return operator
    return operator.replaced(case.stepped(event))


def _concluded(operator: Operator, event: Outcome) -> Operator:
    case = operator.cases.get(event.task)
    if case is None:
        return operator
    if isinstance(event, Done | Undone) and event.game:
        block = event.block if isinstance(event, Done) else -1
        play = Play(visible_by=block, not_before=operator.head + 1)
        return operator.replaced(case.played(event.game, play))
    if isinstance(event, Done | Undone) and event.step in BESIDE:
        return operator.replaced(_delivered(operator, case, event))
    return _finished(operator, replace(case, doing=None), event)


def _delivered(operator: Operator, case: Case, event: Done | Undone) -> Case:
    """The gateway has it, or will be given it later."""
    later = case.gateway_from if isinstance(event, Done) else operator.head + PAUSE
    if event.step is Step.DECLINE:
        return replace(case, gateway_from=later, published=case.published if isinstance(event, Done) else None)
    return replace(case, gateway_from=later, uploading=False, uploaded=isinstance(event, Done))


def _finished(operator: Operator, case: Case, event: Outcome) -> Operator:
    match event:
        case Undone(_, failed, reason):
            return _failed(operator, case, failed, reason)
        case Inspected(_, needs, seconds):
            case = replace(case, needs=needs, compile_seconds=seconds)
        case Looked(_, candidacy):
            case = replace(case, candidacy=replace(candidacy, block=operator.head + 1))  # no later was it asked
        case Executed(_, seal):
            if case.seal is not None and case.seal.outputs_root != seal.outputs_root:
                reason = Reason(Code.DEVICE, case.seal.outputs_root.hex(), seal.outputs_root.hex())
                return replace(operator.replaced(replace(case, dropped=reason)), faulty=reason)
            operator, case = _proven(operator, case), replace(case, seal=case.seal or seal)
        case Done(_, Step.FETCH):
            case = replace(case, fetched=True)
        case Done(_, Step.PREPARE):
            operator = _proven(operator, case) if case.state is State.OPEN else operator  # others are not tried
            case = replace(case, prepared=True)
        case Done(_, Step.HALT):
            case = replace(case, halted=True)
        case Done(_, done, block) if done in SENT and (block == 0 or case.life.since < block):
            return operator.replaced(replace(case, visible_by=block, not_before=operator.head + 1, attempts=0))
    return operator.replaced(replace(case, attempts=0, not_before=0))


def _proven(operator: Operator, case: Case) -> Operator:
    known = operator.proven if len(operator.proven) < PROVEN else frozenset()
    return replace(operator, proven=known | {case.order.program})


def _failed(operator: Operator, case: Case, failed: Step, reason: Reason) -> Operator:
    if reason.code is Code.DEVICE or (reason.code is Code.CLUSTER and operator.faulty is None):
        operator = replace(operator, faulty=reason)
    judged = failed in _JUDGING
    if judged and operator.mine(case):
        case = replace(case, dropped=case.dropped or reason) if reason.lasting else case
    elif judged and case.state is State.COMMITTED:
        case = replace(case, unanswered=reason)
    elif failed is Step.PREPARE and reason.code is Code.COMPILE:
        case = replace(case, compile_seconds=preparing.outlived(case.compile_seconds))
    elif failed in (Step.INSPECT, Step.FETCH, Step.PREPARE):
        case = replace(case, refused=reason)
    if not (judged and reason.lasting):
        pause = 1 if failed in URGENT else min(1 << case.attempts, PAUSE)
        case = replace(case, attempts=case.attempts + 1, not_before=operator.head + pause)
    return operator.replaced(case)


# ---- deciding ----


def _decide(operator: Operator) -> tuple[Operator, tuple[Do, ...]]:
    """Games first, then each task in the order of urgency; later ones see what earlier ones are about to do."""
    operator, actions = _decide_games(operator)
    spent = preparing.spent(operator)
    urgency = {uuid: _urgency(operator, case, spent) for uuid, case in operator.cases.items()}
    for uuid in sorted(urgency, key=urgency.__getitem__):
        case = operator.cases[uuid]
        if _forgettable(operator, case):
            operator = replace(operator, cases={u: c for u, c in operator.cases.items() if u != uuid})
            continue
        if _convicted(operator, case):
            operator = replace(operator, draining=True)
        decided, wanted = _judge(operator, case)
        actions.extend(Do(step, uuid) for step in wanted)
        if decided is not case:
            operator = operator.replaced(decided)
    return operator, tuple(actions)


def _decide_games(operator: Operator) -> tuple[Operator, list[Do]]:
    actions: list[Do] = []
    for case, number, position in sorted(operator.games(), key=lambda game: deadline_of(game[2])):
        play = case.play_in(number)
        if (wanted := _next_move(operator, play, position)) is not None:
            now = operator.cases[case.uuid]
            operator = operator.replaced(now.played(number, replace(play, doing=wanted)))
            actions.append(Do(wanted, case.uuid, number))
    return operator, actions


def _next_move(operator: Operator, play: Play, position: Position) -> Step | None:
    """What to do in a game: move at once, whatever else there is to do. A side that used up its clock has lost by the
    clock alone: it moves no more."""
    if play.doing is not None or operator.head < max(play.visible_by, play.not_before):
        return None
    in_time = operator.head < deadline_of(position)
    if operator.is_to_move(position):  # a faulty device plays on: the clock alone would convict it as well
        return Step.PLAY if in_time and not operator.testing else None
    return None if in_time else Step.TIMEOUT


def _urgency(operator: Operator, case: Case, spent: Mapping[str, float]) -> tuple[int, float, float, int, bytes]:
    """Checks first, which begin only where no promise becomes late by them: who always has promises would never
    check. Then what was promised, then what may be accepted; each by its deadline. Of what may be accepted comes first
    what is of clients that were given the least, then what costs the least to look at."""
    if case.state is State.OPEN and not operator.role_in(case):
        return 2, spent.get(case.order.client, 0.0), operator.compiling(case), case.deadline, case.uuid
    return 1 if operator.role_in(case) else 0, 0.0, 0.0, case.deadline, case.uuid


def _convicted(operator: Operator, case: Case) -> bool:
    return case.state is State.CONVICTED and operator.mine(case) and not case.halted


def _judge(operator: Operator, case: Case) -> tuple[Case, list[Step]]:
    """One task with what was decided about it, and the steps to begin."""
    steps: list[Step] = []
    decision = _next(operator, case)
    if isinstance(decision, Step):
        steps.append(decision)
        case = replace(case, doing=decision, refused=None if decision in _SUITS else case.refused)
    elif decision is not None and operator.mine(case):
        case = replace(case, dropped=case.dropped or decision)
    elif decision is not None and case.state is State.OPEN:
        case = case if decision == case.refused else replace(case, refused=_lasting(case.refused, decision))
    elif decision is not None and decision != case.unanswered:
        case = replace(case, unanswered=decision)
    if operator.head >= case.gateway_from and not case.uploading:
        case = _publish(operator, case, steps)
    return case, steps


def _lasting(refused: Reason | None, decision: Reason) -> Reason:
    """The reason to keep: that time is over says nothing where something else spoke against the task until then."""
    return replace(refused, lasting=True) if refused and decision.code is Code.DEADLINE else decision


def _publish(operator: Operator, case: Case, steps: list[Step]) -> Case:
    """Publishes a refusal, delivers a result. Nothing waits for it."""
    if case.state is State.OPEN and case.refused is not None and case.refused.code is not case.published:
        steps.append(Step.DECLINE)
        return replace(case, published=case.refused.code)
    is_public = case.state in (State.REVEALED, State.FINAL) and operator.mine(case)
    if is_public and case.seal is not None and not case.uploaded:
        steps.append(Step.UPLOAD)
        return replace(case, uploading=True)
    return case


def _next(operator: Operator, case: Case) -> Step | Reason | None:
    """The next step of one task, or why there is none, or None where there is nothing to do or to say."""
    if operator.is_waiting(case):
        return None
    if case.state is State.OPEN:
        return taking.next_step(operator, case)
    return executing.next_step(operator, case) if operator.mine(case) else verifying.next_step(operator, case)


def _forgettable(operator: Operator, case: Case) -> bool:
    """Nothing can come of the task any more, not even by a reorg."""
    if case.doing is not None or case.uploading:
        return False
    age = operator.head - operator.policy.keep
    if case.state is State.NONE or case.state is State.OPEN:
        return case.order.accept_by < age and case.seal is None
    if not operator.role_in(case):
        return max(case.life.since, case.deadline) < age
    undelivered = case.state is State.FINAL and case.seal is not None and not case.uploaded
    waits = (operator.mine(case) and undelivered) or not operator.is_finished(case)
    return case.state.is_terminal and case.life.since < (operator.head - DELIVERY if waits else age)
