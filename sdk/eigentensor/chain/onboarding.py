"""How an account becomes an operator, and how it leaves: plans that follow from where it stands. Pure.

A plan is made anew after every message, so that an interrupted one is simply made again.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eigentensor.chain.network import Deployment
from eigentensor.chain.survey import Findings, Withdrawal
from eigentensor.chain.units import from_wei

#: Wei that a strategy may take by rounding when it turns tokens into shares.
_ROUNDING = 1024
_NOBODY = "0x" + "00" * 20


class Status(StrEnum):
    """`waiting`: for a block, or for another step. `blocked`: by something that no step of the plan can change."""

    DONE = "done"
    TODO = "to do"
    WAITING = "waiting"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Call:
    """A message of the owner: `contract` is its name in ABIs."""

    contract: str
    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """`calls` are what is to be sent now, in this order; `until` is the block that it waits for (0: not known)."""

    name: str
    what: str
    status: Status
    calls: tuple[Call, ...] = ()
    until: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Goal:
    """What an operator is to have. Wei, but for `stake_cap` (shares); `magnitude` (WAD) is its allocation to the
    market's operator set, None: all that no other set has."""

    signer: str
    stake: int
    collateral: int
    collateral_cap: int
    stake_cap: int
    seats: int
    magnitude: int | None = None
    metadata: str = ""


def joining(s: Findings, goal: Goal, d: Deployment) -> tuple[Step, ...]:
    """The plan that makes the owner an operator of the market that has what the goal names."""
    allocation = _allocation(s, goal, d)
    membership = _membership(s, d)
    collateral = _collateral(s, goal, d)
    return (
        _operator(s, goal),
        _stake(s, goal, d),
        allocation,
        membership,
        _signer(s, goal, d),
        collateral,
        _seats(s, goal, (allocation, membership), collateral, d),
    )


def leaving(s: Findings, d: Deployment, *, withdraw: bool, unfinished: int = 0) -> tuple[Step, ...]:
    """The plan that ends it, as early as each part can: the signer stays until no task needs it.

    With `withdraw` the stake comes back to the owner, else it stays in EigenLayer, free for other operator sets.
    `unfinished` tasks are known to the daemon of this machine.
    """
    tasks = _tasks(s, d, unfinished)
    steps = (_departure(s, d), tasks, _deallocation(s, d), _balance(s, tasks, d), _dismissal(s, tasks))
    return (*steps, _queue(s, d), _withdrawal(s, d)) if withdraw else steps


# ---- Joining ----


def _operator(s: Findings, goal: Goal) -> Step:
    name, what = "operator", "become an operator of EigenLayer; there is no way back"
    if s.is_operator:
        return Step(name, what, Status.DONE)
    if s.delegated_to:
        why = f"it is delegated to {s.delegated_to}: undelegate it at EigenLayer, or take another account"
        return Step(name, what, Status.BLOCKED, why=why)
    call = Call("DelegationManager", "registerAsOperator", (_NOBODY, 0, goal.metadata))
    return Step(name, what, Status.TODO, (call,))


def _stake(s: Findings, goal: Goal, d: Deployment) -> Step:
    name, what = "stake", f"have {_amount(d, goal.stake)} of stake"
    missing = goal.stake - s.stake
    if missing <= _ROUNDING:
        return Step(name, what, Status.DONE)
    if s.is_wiped_out:
        return Step(name, what, Status.BLOCKED, why="slashes left nothing: EigenLayer takes no deposits any more")
    approve = Call("Token", "approve", (d.strategy_manager, missing))
    deposit = Call("StrategyManager", "depositIntoStrategy", (d.strategy, d.token, missing))
    calls = (approve, deposit) if s.stake_allowance < missing else (deposit,)
    return _paying(s, Step(name, what, Status.TODO, calls), missing, d)


def _allocation(s: Findings, goal: Goal, d: Deployment) -> Step:
    name, target = "allocation", s.magnitude + max(s.pending, 0) + s.allocatable
    if goal.magnitude is not None:
        target = goal.magnitude
    share = f"{from_wei(target)} of its stake" if goal.magnitude is not None else "what no other set may slash"
    what = f"let the market's operator set slash {share}"
    if s.effect_block > s.block:
        why = "" if s.magnitude + s.pending >= target else "another change is under way"
        return Step(name, what, Status.WAITING, until=s.effect_block, why=why)
    if s.magnitude >= target:
        status = Status.DONE if target else Status.BLOCKED
        return Step(name, what, status, why="" if target else "other sets have all of it, or it was slashed")
    if s.is_operator and s.allocation_delay is None:
        if s.delay_from > s.block:
            return Step(name, what, Status.WAITING, until=s.delay_from, why="EigenLayer's wait for the first one")
        call = Call("AllocationManager", "setAllocationDelay", (s.owner, 0))
        return Step(name, what, Status.TODO, (call,), why="the account has no allocation delay yet")
    return Step(name, what, Status.TODO, (_allocate(s, target, d),))


def _membership(s: Findings, d: Deployment) -> Step:
    name, what = "operator set", "join the market's operator set, which puts that stake at risk"
    if s.is_member:
        return Step(name, what, Status.DONE)
    if s.returns_from > s.block:
        return Step(name, what, Status.WAITING, until=s.returns_from, why="its former membership still answers")
    arguments = (s.owner, (s.operator_set[0], [s.operator_set[1]], b""))
    return Step(name, what, Status.TODO, (Call("AllocationManager", "registerForOperatorSets", arguments),))


def _signer(s: Findings, goal: Goal, d: Deployment) -> Step:
    what = f"let {goal.signer} hold at most {_amount(d, goal.collateral_cap)} of collateral in tasks"
    caps = (goal.collateral_cap, goal.stake_cap)
    if (s.signer, s.caps) == (goal.signer, caps):
        return Step("signer", what, Status.DONE)
    return Step("signer", what, Status.TODO, (Call("ServiceManager", "setSigner", (goal.signer, *caps)),))


def _collateral(s: Findings, goal: Goal, d: Deployment) -> Step:
    name, what = "collateral", f"have {_amount(d, goal.collateral)} in the market"
    missing = goal.collateral - s.balance - s.collateral
    if missing <= 0:
        return Step(name, what, Status.DONE)
    approve = Call("Token", "approve", (d.task_market, missing))
    deposit = Call("TaskMarket", "deposit", (s.owner, missing))
    calls = (approve, deposit) if s.collateral_allowance < missing else (deposit,)
    return _paying(s, Step(name, what, Status.TODO, calls), missing, d)


def _seats(s: Findings, goal: Goal, before: tuple[Step, ...], collateral: Step, d: Deployment) -> Step:
    what = f"take {goal.seats} seats among the verifiers"
    if s.seats >= goal.seats:
        return Step("seats", what, Status.DONE)
    if s.lasting >= goal.seats * s.seat_stake:
        deposits = (goal.seats - s.seats) * s.seat_deposit
        if s.balance >= deposits:
            return Step(
                "seats", what, Status.TODO, (Call("ServiceManager", "enlist", (s.owner, goal.seats - s.seats)),)
            )
        if collateral.status is not Status.DONE:
            return Step("seats", what, Status.WAITING, why="for the collateral")
        why = f"their deposits take {_amount(d, deposits)} of its free balance in the market: have more collateral"
        return Step("seats", what, Status.BLOCKED, why=why)
    first = next((step for step in before if step.status is not Status.DONE), None)
    if first is not None:
        return Step("seats", what, Status.WAITING, until=first.until, why=f"for the {first.name}")
    covered = s.lasting // s.seat_stake
    return Step("seats", what, Status.BLOCKED, why=f"the stake covers {covered}: have more of it, or ask for fewer")


def _paying(s: Findings, step: Step, amount: int, d: Deployment) -> Step:
    if s.tokens >= amount:
        return step
    why = f"{s.owner} has {_amount(d, s.tokens)} and needs {_amount(d, amount)}"
    return Step(step.name, step.what, Status.BLOCKED, why=why)


# ---- Leaving ----


def _departure(s: Findings, d: Deployment) -> Step:
    name, what = "operator set", "leave the market's operator set; its seats go with it"
    if not s.is_member:
        return Step(name, what, Status.DONE)
    arguments = (s.owner, s.operator_set[0], [s.operator_set[1]])
    return Step(name, what, Status.TODO, (Call("AllocationManager", "deregisterFromOperatorSets", (arguments,)),))


def _tasks(s: Findings, d: Deployment, unfinished: int) -> Step:
    name, what = "tasks", "end what was accepted and answered; its daemon must run until then"
    held = s.collateral - s.seats * s.seat_deposit
    if not s.locked and not held and not unfinished:
        return Step(name, what, Status.DONE)
    why = f"they hold {_amount(d, held)} of collateral and bonds, and {s.locked} shares of stake"
    return Step(name, what, Status.WAITING, until=s.locked_until, why=why)


def _deallocation(s: Findings, d: Deployment) -> Step:
    name, what = "allocation", "take the stake from the market's operator set"
    if s.effect_block > s.block:
        return Step(name, what, Status.WAITING, until=s.effect_block, why="until then it can be slashed")
    if not s.magnitude:
        return Step(name, what, Status.DONE)
    return Step(name, what, Status.TODO, (_allocate(s, 0, d),))


def _balance(s: Findings, tasks: Step, d: Deployment) -> Step:
    name, what = "balance", "take what is in the market"
    if tasks.status is not Status.DONE:
        return Step(name, what, Status.WAITING, until=tasks.until, why="for the tasks, which may need it")
    if not s.balance:
        return Step(name, what, Status.DONE)
    call = Call("TaskMarket", "withdraw", (s.owner, s.balance))
    return Step(name, f"{what}: {_amount(d, s.balance)}", Status.TODO, (call,))


def _dismissal(s: Findings, tasks: Step) -> Step:
    name, what = "signer", "dismiss the signer"
    if int(s.signer, 16) == 0:
        return Step(name, what, Status.DONE)
    if tasks.status is not Status.DONE:
        return Step(name, what, Status.WAITING, until=tasks.until, why="for the tasks, whose moves it signs")
    return Step(name, what, Status.TODO, (Call("ServiceManager", "setSigner", (_NOBODY, 0, 0)),))


def _queue(s: Findings, d: Deployment) -> Step:
    name, what = "stake", "ask EigenLayer for the stake"
    if not s.deposit_shares or not s.withdrawable:
        return Step(name, what, Status.DONE)
    params = [([d.strategy], [s.deposit_shares], _NOBODY)]
    call = Call("DelegationManager", "queueWithdrawals", (params,))
    return Step(name, f"{what}: {_amount(d, s.withdrawable)}", Status.TODO, (call,))


def _withdrawal(s: Findings, d: Deployment) -> Step:
    name, what = "withdrawal", "take the stake out of EigenLayer"
    due = [w for w in s.withdrawals if w.due <= s.block + 1]
    if due:
        what = f"{what}: {_amount(d, sum(w.amount for w in due))}"
        calls = (_complete(w, d) for w in due)
        return Step(name, what, Status.TODO, tuple(calls))
    if s.withdrawals:
        return Step(
            name, what, Status.WAITING, until=min(w.due for w in s.withdrawals), why="can be slashed until then"
        )
    if s.deposit_shares and s.withdrawable:
        return Step(name, what, Status.WAITING, why="for the stake to be asked for")
    return Step(name, what, Status.DONE)


def _complete(withdrawal: Withdrawal, d: Deployment) -> Call:
    return Call("DelegationManager", "completeQueuedWithdrawal", (withdrawal.fields, [d.token], True))


def _allocate(s: Findings, magnitude: int, d: Deployment) -> Call:
    params = [(s.operator_set, [d.strategy], [magnitude])]
    return Call("AllocationManager", "modifyAllocations", (s.owner, params))


def _amount(d: Deployment, wei: int) -> str:
    return f"{from_wei(wei, d.token_decimals)} {d.token_symbol}"
