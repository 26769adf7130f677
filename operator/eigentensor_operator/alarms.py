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


#: What its owner can do about each.
FIXES: Mapping[Alarm, str] = {
    Alarm.PAUSED: "Nothing here: it accepts again when EigenLayer goes on, which says why it does not.",
    Alarm.DELAYS: "Shorter tasks go on. If every task is refused, finish what was accepted and `operator leave`.",
    Alarm.SLASHED: "If another operator set did it, look there before you stake more with `operator up --stake`.",
    Alarm.SEATS: "Stake more with `operator up --stake`: no seat answers before, and a pruned one costs its deposit.",
    Alarm.DEALLOCATING: "If you want it here, `operator up` allocates it again after that block.",
    Alarm.QUEUED: "If it is not to be missed here, deposit as much with `operator up --stake`.",
}
#: Those that keep it from tasks, or from seats.
HINDERING = frozenset({Alarm.PAUSED, Alarm.DELAYS, Alarm.SEATS})


def alarms_of(policy: Policy, standing: Standing) -> Mapping[Alarm, str]:
    """What is not as usual, and what follows from it."""
    alarms: dict[Alarm, str] = {}
    p, backing = policy.parameters, standing.backing
    if backing.paused:
        alarms[Alarm.PAUSED] = "EigenLayer has paused slashing: nothing is accepted until that is over"
    if economics.lifetime(p, p.max_exec) > standing.delay:
        most = _longest(policy, standing.delay)
        accepted = f"tasks of more than {most} blocks are refused" if most else "every task is refused"
        alarms[Alarm.DELAYS] = f"EigenLayer holds stake for {standing.delay} blocks only: {accepted}"
    if backing.magnitude < WAD:
        lost = (WAD - backing.magnitude) / WAD
        alarms[Alarm.SLASHED] = f"{lost:.6%} of what was delegated at first is slashed, by this operator set or another"
    if standing.member and backing.lasting < standing.seats * backing.seat_stake:
        covered = backing.lasting // backing.seat_stake
        seats = f"{covered} of {standing.seats} seats"
        alarms[Alarm.SEATS] = f"the stake covers {seats}: none answers, others may be pruned"
    if backing.deallocating and backing.gone_by > standing.block:
        part = backing.deallocating / WAD
        alarms[Alarm.DEALLOCATING] = f"{part:.6%} of the stake leaves the operator set in block {backing.gone_by}"
    if backing.queued:
        alarms[Alarm.QUEUED] = f"{backing.queued} wei of stake wait to be withdrawn: no task can lock them any more"
    return alarms


def _longest(policy: Policy, delay: int) -> int:
    """The most blocks of execution that a task may have; 0: none fits."""
    p = policy.parameters
    fitting = (exec_ for exec_ in range(p.max_exec, 0, -1) if economics.lifetime(p, exec_) <= delay)
    return next(fitting, 0)
