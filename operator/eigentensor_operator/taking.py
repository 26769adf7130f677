"""Open tasks: look at each as cheaply as possible, and say no as early as possible. Pure."""

from dataclasses import replace

from eigentensor.program.cost import Needs
from eigentensor_operator import policy as rules
from eigentensor_operator.case import Case, Step
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.preparing import may_prepare
from eigentensor_operator.state import Operator

DOWNLOADS = 2  # at a time


def next_step(operator: Operator, case: Case) -> Step | Reason | None:
    """What to do about an open task, or why nothing is done."""
    policy, standing = operator.policy, operator.standing
    assert standing is not None
    if case.refused is not None and case.refused.lasting:
        return None
    if operator.faulty is not None:
        return replace(operator.faulty, lasting=False)
    if operator.draining:
        return Reason(Code.DRAINING, "an operator that accepts", "draining", lasting=False)
    if operator.testing:
        return None
    no = rules.refuse_order(policy, case.order) or rules.refuse_now(policy, case.order, standing, operator.claims)
    if no is not None:
        return no
    if case.needs is None:
        return Step.INSPECT if may_download(operator) else None
    no = (
        rules.refuse_needs(policy, case.order, case.needs)
        or rules.refuse_compiling(policy, operator.compiling(case))
        or rules.refuse_price(policy, case.order, standing, case.needs, operator.compiling(case))
        or _refuse_queue(operator, case, case.needs)
    )
    if no is not None:
        return no
    if not case.fetched:
        return Step.FETCH if may_download(operator) else None
    if not operator.is_prepared(case):
        return Step.PREPARE if may_prepare(operator, case) else None
    return Step.ACCEPT


def may_download(operator: Operator) -> bool:
    """Whether one more program or blob may be fetched."""
    return operator.doing(Step.INSPECT, Step.FETCH) < DOWNLOADS


def _refuse_queue(operator: Operator, case: Case, needs: Needs) -> Reason | None:
    """Why the task does not fit behind those that this operator has promised already."""
    policy = operator.policy
    if (taken := len(operator.promises)) >= policy.capacity:
        return Reason(Code.BUSY, "a free place", f"{taken} of {policy.capacity} taken", lasting=False)
    total = operator.blocks_ahead + policy.blocks(needs) + policy.reserve
    if total > case.order.exec:
        return Reason(Code.BUSY, f"{total} blocks", f"{case.order.exec} blocks", lasting=False)
    return None
