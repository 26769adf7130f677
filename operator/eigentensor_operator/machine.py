"""What to do next: pure. `step` takes what happened and says what to do; it knows no clock, network or randomness.

Chain events only add facts; decisions follow at the head of the chain (`Head`) and when something asked for is done.
Everything that must survive a restart is in `Case` and is written down before the actions of the same step are done.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eigentensor import economics
from eigentensor.chain import Order, State
from eigentensor_operator import policy as rules
from eigentensor_operator.case import SENT, Case, Step
from eigentensor_operator.events import Do, Done, Drain, Event, Executed, Head, Inspected, RolledBack, Seen, Undone
from eigentensor_operator.policy import Code, Needs, Policy, Reason, Standing

DOWNLOADS = 2  # at a time
DELIVERY = 10_000  # blocks after the payment in which a result is still offered to the gateway


@dataclass(frozen=True, slots=True)
class Operator:
    """All that the daemon knows. `faulty` once the device gave a wrong result: then nothing more is accepted."""

    policy: Policy
    cases: Mapping[bytes, Case] = field(default_factory=dict)
    standing: Standing | None = None
    draining: bool = False
    faulty: Reason | None = None

    @property
    def head(self) -> int:
        return self.standing.block if self.standing else -1

    def mine(self, case: Case) -> bool:
        return case.executor == self.policy.operator

    @property
    def idle(self) -> bool:
        """Nothing accepted waits for a commit, a reveal or an upload, and no acceptance is on its way."""
        return not any(self._busy(case) for case in self.cases.values())

    def _busy(self, case: Case) -> bool:
        if case.doing in SENT or case.visible_by > self.head:
            return True
        if not self.mine(case) or case.dropped:
            return False
        return case.now.state in (State.ACCEPTED, State.COMMITTED) or (case.seal is not None and not case.uploaded)


def step(operator: Operator, event: Event) -> tuple[Operator, tuple[Do, ...]]:
    """The state after `event`, and what to do now."""
    operator = _absorb(operator, event)
    return (operator, ()) if isinstance(event, Seen | RolledBack) or operator.standing is None else _decide(operator)


# ---- absorbing: facts, never decisions ----


def _absorb(operator: Operator, event: Event) -> Operator:
    match event:
        case Head(standing):
            return replace(operator, standing=standing)
        case Drain():
            return replace(operator, draining=True)
        case RolledBack(block):
            cases = {uuid: case.rolled_back(block) for uuid, case in operator.cases.items()}
            return replace(operator, cases=cases)
        case Seen(uuid, fact, order):
            if uuid in operator.cases:
                return _with(operator, operator.cases[uuid].learned(fact))
            return operator if order is None else _with(operator, Case(uuid, order, (fact,)))
        case Inspected() | Executed() | Done() | Undone():
            known = operator.cases.get(event.task)
            if known is None or (isinstance(event, Done | Undone) and event.step is Step.DECLINE):
                return operator  # a refusal is published beside the steps
            return _finished(operator, replace(known, doing=None), event)


def _finished(operator: Operator, case: Case, event: Inspected | Executed | Done | Undone) -> Operator:
    match event:
        case Undone(_, failed, reason):
            return _failed(operator, case, failed, reason)
        case Inspected(_, needs):
            case = replace(case, needs=needs)
        case Executed(_, seal):
            if case.seal is not None and case.seal.outputs_root != seal.outputs_root:
                reason = Reason(Code.DEVICE, case.seal.outputs_root.hex(), seal.outputs_root.hex())
                return replace(_with(operator, replace(case, dropped=reason)), faulty=reason)
            case = replace(case, seal=case.seal or seal)
        case Done(_, Step.FETCH):
            case = replace(case, fetched=True)
        case Done(_, Step.UPLOAD):
            case = replace(case, uploaded=True)
        case Done(_, done, block) if done in SENT and case.now.block < block:
            return _with(operator, replace(case, visible_by=block, not_before=operator.head + 1, attempts=0))
    return _with(operator, replace(case, attempts=0, not_before=0))


def _failed(operator: Operator, case: Case, failed: Step, reason: Reason) -> Operator:
    if reason.code is Code.DEVICE:
        operator = replace(operator, faulty=reason)
    mine, lasting = operator.mine(case), reason.lasting and failed in (Step.INSPECT, Step.FETCH, Step.EXECUTE)
    if mine and lasting:
        case = replace(case, dropped=case.dropped or reason)
    elif not mine and failed in (Step.INSPECT, Step.FETCH):
        case = replace(case, refused=reason)
    if not lasting:
        pause = 1 << min(case.attempts, 3)
        case = replace(case, attempts=case.attempts + 1, not_before=operator.head + pause)
    return _with(operator, case)


def _with(operator: Operator, case: Case) -> Operator:
    return replace(operator, cases={**operator.cases, case.uuid: case})


# ---- deciding ----


def _decide(operator: Operator) -> tuple[Operator, tuple[Do, ...]]:
    """Asks each task in the order of deadlines; later ones see what earlier ones are about to do."""
    actions: list[Do] = []
    urgency = {uuid: (case.deadline(operator.policy), uuid) for uuid, case in operator.cases.items()}
    for uuid in sorted(urgency, key=urgency.__getitem__):
        case = operator.cases[uuid]
        if _forgettable(operator, case):
            operator = replace(operator, cases={u: c for u, c in operator.cases.items() if u != uuid})
            continue
        decided, wanted = _judge(operator, case)
        actions.extend(Do(step, uuid) for step in wanted)
        if decided is not case:
            operator = _with(operator, decided)
    return operator, tuple(actions)


def _judge(operator: Operator, case: Case) -> tuple[Case, list[Step]]:
    """One task with what was decided about it, and the steps to begin. A refusal is published once for each code."""
    steps: list[Step] = []
    decision = _next(operator, case)
    if isinstance(decision, Step):
        steps.append(decision)
        case = replace(case, doing=decision, refused=None if decision is Step.ACCEPT else case.refused)
    elif isinstance(decision, Reason) and operator.mine(case):
        case = replace(case, dropped=case.dropped or decision)
    elif isinstance(decision, Reason) and decision != case.refused:
        case = replace(case, refused=decision)
    if case.refused is not None and case.refused.code is not case.published and case.now.state is State.OPEN:
        steps.append(Step.DECLINE)
        case = replace(case, published=case.refused.code)
    return case, steps


def _next(operator: Operator, case: Case) -> Step | Reason | None:
    """The next step of one task, or why there is none, or None where there is nothing to do or to say."""
    waiting = case.doing is not None or operator.head < max(case.not_before, case.visible_by)
    if waiting:
        return None
    if case.now.state is State.OPEN:
        return _take(operator, case)
    if not operator.mine(case):
        return None
    late = operator.head >= case.deadline(operator.policy)
    overdue = operator.head >= case.deadline(operator.policy) + operator.policy.patience
    match case.now.state:
        case State.ACCEPTED | State.COMMITTED if case.dropped:
            return Step.FAIL if overdue else None
        case State.ACCEPTED | State.COMMITTED if late:
            return Reason(Code.LATE, f"block {case.deadline(operator.policy)}", f"block {operator.head + 1}")
        case State.ACCEPTED:
            return _execute(operator, case)
        case State.COMMITTED:
            if case.seal is None or case.seal.commitment != case.now.claim:
                return Reason(Code.SEAL, case.now.claim.hex(), case.seal.commitment.hex() if case.seal else "no seal")
            return Step.REVEAL
        case State.REVEALED if overdue:
            return Step.CLOSE
        case State.REVEALED | State.FINAL if case.seal is not None and not case.uploaded:
            return Step.UPLOAD
        case _:
            return None


def _take(operator: Operator, case: Case) -> Step | Reason | None:
    """An open task: look at it as cheaply as possible, and say no as early as possible."""
    policy, standing = operator.policy, operator.standing
    assert standing is not None
    if case.refused is not None and case.refused.lasting:
        return None
    if operator.faulty is not None:
        return replace(operator.faulty, lasting=False)
    if operator.draining:
        return Reason(Code.DRAINING, "an operator that accepts", "draining", lasting=False)
    no = rules.refuse_order(policy, case.order) or rules.refuse_now(policy, case.order, standing, _promised(operator))
    if no is not None:
        return no
    if case.needs is None:
        return Step.INSPECT if _downloads(operator) < DOWNLOADS else None
    no = (
        rules.refuse_needs(policy, case.order, case.needs)
        or rules.refuse_price(policy, case.order, standing, case.needs)
        or _refuse_queue(operator, case.order, case.needs)
    )
    if no is not None:
        return no
    if not case.fetched:
        return Step.FETCH if _downloads(operator) < DOWNLOADS else None
    return Step.ACCEPT


def _execute(operator: Operator, case: Case) -> Step | None:
    """An accepted task, whatever is missing to commit it. The device executes one task at a time."""
    if case.seal is not None:
        return Step.COMMIT
    if case.needs is None:
        return Step.INSPECT
    if not case.fetched:
        return Step.FETCH
    return None if any(c.doing is Step.EXECUTE for c in operator.cases.values()) else Step.EXECUTE


def _refuse_queue(operator: Operator, order: Order, needs: Needs) -> Reason | None:
    """Why the task does not fit behind those that this operator has promised already."""
    policy = operator.policy
    queue = [c for c in operator.cases.values() if _promise(operator, c)]
    if len(queue) >= policy.capacity:
        return Reason(Code.BUSY, "a free place", f"{len(queue)} of {policy.capacity} taken", lasting=False)
    ahead = sum(policy.blocks(c.needs) for c in queue if c.needs and c.seal is None)
    total = ahead + policy.blocks(needs) + policy.reserve
    if total > order.exec:
        return Reason(Code.BUSY, f"{total} blocks", f"{order.exec} blocks", lasting=False)
    return None


def _promise(operator: Operator, case: Case) -> bool:
    """Accepted by this operator and not yet committed, or about to be."""
    if case.now.state is State.ACCEPTED:
        return operator.mine(case) and not case.dropped
    return _accepting(operator, case)


def _accepting(operator: Operator, case: Case) -> bool:
    return case.now.state is State.OPEN and (case.doing is Step.ACCEPT or case.visible_by > operator.head)


def _promised(operator: Operator) -> int:
    """Collateral that acceptances on their way, or after the head, will hold."""
    coming = (c for c in operator.cases.values() if _accepting(operator, c) or _accepted_after_head(operator, c))
    prices = (rules.price_at(case.order, operator.head + 1) for case in coming)
    return sum(economics.collateral(operator.policy.parameters, price) for price in prices)


def _accepted_after_head(operator: Operator, case: Case) -> bool:
    return case.now.state is State.ACCEPTED and operator.mine(case) and case.now.block > operator.head


def _downloads(operator: Operator) -> int:
    return sum(c.doing in (Step.INSPECT, Step.FETCH) for c in operator.cases.values())


def _forgettable(operator: Operator, case: Case) -> bool:
    """Nothing can come of the task any more, not even by a reorg."""
    if case.doing is not None:
        return False
    age = operator.head - operator.policy.keep
    if case.now.state is State.NONE or case.now.state is State.OPEN:
        return case.order.accept_by < age and case.seal is None
    if not operator.mine(case):
        return case.now.block < age
    undelivered = case.now.state is State.FINAL and case.seal is not None and not case.uploaded
    return case.now.state.is_terminal and case.now.block < (operator.head - DELIVERY if undelivered else age)
