"""What of EigenLayer an operator should hear of at once: pure."""

from collections.abc import Mapping
from enum import StrEnum

from eigentensor import economics
from eigentensor.economics import WAD
from eigentensor_operator.policy import Policy, Standing


class Alarm(StrEnum):
    """The names label metrics."""

    PAUSED = "paused"
    DELAYS = "delays"
    SLASHED = "slashed"
    SEATS = "seats"
    DEALLOCATING = "deallocating"
    QUEUED = "queued"


def alarms_of(policy: Policy, standing: Standing) -> Mapping[Alarm, str]:
    """What is not as usual, and what follows from it."""
    found: dict[Alarm, str] = {}
    p = policy.parameters
    if standing.paused:
        found[Alarm.PAUSED] = "EigenLayer has paused slashing: nothing is accepted until that is over"
    if economics.lifetime(p, p.max_exec) > standing.delay:
        most = _longest(policy, standing.delay)
        accepted = f"tasks of more than {most} blocks are refused" if most else "every task is refused"
        found[Alarm.DELAYS] = f"EigenLayer holds stake for {standing.delay} blocks only: {accepted}"
    if standing.magnitude < WAD:
        lost = (WAD - standing.magnitude) / WAD
        found[Alarm.SLASHED] = f"{lost:.6%} of what was delegated at first is slashed, by this operator set or another"
    if standing.member and standing.lasting < standing.seats * standing.seat_stake:
        covered = standing.lasting // standing.seat_stake
        found[Alarm.SEATS] = f"the stake covers {covered} of {standing.seats} seats: anybody may prune the others"
    if standing.deallocating and standing.gone_by > standing.block:
        part = standing.deallocating / WAD
        found[Alarm.DEALLOCATING] = f"{part:.6%} of the stake leaves the operator set in block {standing.gone_by}"
    if standing.queued:
        found[Alarm.QUEUED] = f"{standing.queued} wei of stake wait to be withdrawn: no task can lock them any more"
    return found


def _longest(policy: Policy, delay: int) -> int:
    """The most blocks of execution that a task may have; 0: none fits."""
    p = policy.parameters
    fitting = (exec_ for exec_ in range(p.max_exec, 0, -1) if economics.lifetime(p, exec_) <= delay)
    return next(fitting, 0)
