"""Where an account stands on its way to be an operator, or away from it: all that the chain knows about it at once."""

from dataclasses import dataclass
from typing import Any

from eigentensor.chain.contracts import talking_to
from eigentensor.chain.history import SPAN, Topics
from eigentensor.chain.reader import Reader
from eigentensor.economics import seat_deposit
from eigentensor.task.events import Event, Locked, OperatorLeft

_NOBODY = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One that is queued at EigenLayer: `fields` are those of its struct; it can be completed from block `due` on."""

    fields: tuple[Any, ...]
    due: int
    amount: int


@dataclass(frozen=True, slots=True)
class Findings:
    """At the head `block`. Amounts in wei of the market's token (`deposit_shares` in shares), parts in WAD, times in
    blocks. Blocks that are none are 0."""

    block: int
    owner: str
    operator_set: tuple[str, int]
    is_operator: bool
    delegated_to: str
    allocation_delay: int | None  # until it is set, nothing can be allocated
    delay_from: int  # the block in which a delay that was set takes effect
    stake: int  # delegated to the operator; what is deposited, before it is one
    deposit_shares: int  # its own
    withdrawable: int  # what they are worth after slashes
    withdrawals: tuple[Withdrawal, ...]
    tokens: int
    stake_allowance: int
    collateral_allowance: int
    magnitude: int  # allocated to the market's operator set now
    pending: int  # what is added to it in `effect_block`
    effect_block: int
    allocatable: int  # what no operator set has
    is_wiped_out: bool  # slashes have left nothing, for ever
    is_member: bool
    returns_from: int  # when a former member may join again
    signer: str
    caps: tuple[int, int]  # wei of collateral, shares of stake
    balance: int
    collateral: int
    locked: int  # shares
    locked_until: int
    seats: int
    seat_stake: int
    seat_deposit: int  # of its balance, for each seat
    lasting: int  # what stays slashable when all that was begun is through


class Survey(Reader):
    """One market, seen from one account."""

    def findings(self, owner: str) -> Findings:
        """All at once, at the newest block."""
        d, me = self.deployment, self._address(owner)
        strategy, block = self._address(d.strategy), self.block_number()
        allocation, delegation, strategies = self.allocation_manager, self.delegation_manager, self.strategy_manager
        operator_set = self.operator_set()
        is_operator = self.is_operator(me)
        delegated_to = self._call(delegation, "delegatedTo", me)
        is_set, delay = self._call(allocation, "getAllocationDelay", me)
        magnitude, pending, effect_block = self._call(allocation, "getAllocation", me, operator_set, strategy)
        deposit_shares = self._call(strategies, "stakerDepositShares", me, strategy)
        (withdrawable,), _ = self._call(delegation, "getWithdrawableShares", me, [strategy])
        signer, *caps = self.signer_of(me)
        account, locked = self.balance_of(me), self.locked_stake(me)
        is_member = self.is_member(me)
        deallocation_delay = self._call(allocation, "DEALLOCATION_DELAY")
        answers = self._call(allocation, "isOperatorSlashable", me, operator_set)
        return Findings(
            block=block,
            owner=me,
            operator_set=operator_set,
            is_operator=is_operator,
            delegated_to="" if delegated_to in (_NOBODY, me) else delegated_to,
            allocation_delay=delay if is_set else None,
            delay_from=self._delay_from(me, block) if is_operator and not is_set else 0,
            stake=self.stake_of(me) if is_operator else self.worth_of(deposit_shares),
            deposit_shares=deposit_shares,
            withdrawable=self.worth_of(withdrawable),
            withdrawals=self._withdrawals(me),
            tokens=self.tokens_of(me),
            stake_allowance=self.allowance(me, d.strategy_manager),
            collateral_allowance=self.allowance(me, d.task_market),
            magnitude=magnitude,
            pending=pending,
            effect_block=effect_block,
            allocatable=self.allocatable_of(me),
            is_wiped_out=self.magnitude_of(me) == 0,
            is_member=is_member,
            returns_from=self._left_at(me, block, deallocation_delay) if answers and not is_member else 0,
            signer=signer,
            caps=(caps[0], caps[1]),
            balance=account.balance,
            collateral=account.collateral,
            locked=locked,
            locked_until=self._locked_until(me, block) if locked else 0,
            seats=self.seats_of(me),
            seat_stake=self.seat_stake(),
            seat_deposit=seat_deposit(d.parameters),
            lasting=self.lasting_stake(me) if is_member else 0,
        )

    def _withdrawals(self, owner: str) -> tuple[Withdrawal, ...]:
        """Those of the market's strategy alone."""
        delay = self._call(self.delegation_manager, "minWithdrawalDelayBlocks")
        queued, shares = self._call(self.delegation_manager, "getQueuedWithdrawals", owner)
        ours = [self._address(self.deployment.strategy)]
        return tuple(
            Withdrawal(tuple(fields), fields[4] + delay + 1, self.worth_of(sum(left)))
            for fields, left in zip(queued, shares, strict=True)
            if list(fields[5]) == ours
        )

    def _delay_from(self, owner: str, block: int) -> int:
        """When the allocation delay that was set last takes effect; 0: none was set. The core has no view for it."""
        wait = self._call(self.allocation_manager, "ALLOCATION_CONFIGURATION_DELAY") + 1
        for stop in range(block, max(block - wait, -1), -SPAN):
            for log in reversed(self._core_logs("AllocationDelaySet", max(stop - SPAN + 1, 0), stop)):
                if log["operator"] == owner:
                    return int(log["effectBlock"])
        return 0

    def _left_at(self, owner: str, block: int, delay: int) -> int:
        """When who left the operator set may come back."""
        left = self._events_about(owner, max(block - delay, self.deployment.block), block, second=False)
        return max((e.place.block + delay + 1 for e in left if isinstance(e, OperatorLeft)), default=0)

    def _locked_until(self, owner: str, block: int) -> int:
        """The last block in which a task may hold stake. No lock is longer than the stake's delay was."""
        since = max(block - 4 * self.stake_delay(), self.deployment.block)
        events = self._events_about(owner, since, block, second=True)
        return max((e.end for e in events if isinstance(e, Locked) and self.lock_of(e.task, owner).end), default=0)

    def _core_logs(self, event: str, start: int, stop: int) -> list[Any]:
        """What an event of the allocation manager said; it has no topics to choose by."""
        with talking_to(self.network.rpc_url):
            logs = self.allocation_manager.events[event]().get_logs(from_block=start, to_block=stop)
            return [log["args"] for log in logs]

    def _events_about(self, operator: str, first: int, last: int, *, second: bool) -> list[Event]:
        """Events of which the operator is the first argument that can be chosen by, or the second."""
        topic = bytes(12) + bytes.fromhex(operator[2:])
        topics: Topics = (None, None, [topic]) if second else (None, [topic])
        spans = range(first, last + 1, SPAN)
        return [event for start in spans for event in self.logs(start, min(start + SPAN - 1, last), topics)]
