"""A survey of one account on its way to be an operator, or away from it: all that the chain knows about it at once."""

from dataclasses import dataclass
from typing import Any

from eigentensor.addresses import to_checksum_address
from eigentensor.chain.contracts import abi, events_of
from eigentensor.chain.history import SPAN, History, Topics, spans
from eigentensor.chain.node import Node
from eigentensor.chain.reader import Reader
from eigentensor.chain.refusals import talking_to
from eigentensor.economics import seat_deposit
from eigentensor.task.events import Event, Locked, OperatorLeft

_NOBODY = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A withdrawal in EigenLayer's queue: the `fields` of its struct, the block from which it can be completed, and wei
    of the token."""

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


def survey(reader: Reader, owner: str) -> Findings:
    """The findings about one account, all at the newest block. Raises what `Node` raises."""
    d, node, stake, me = reader.deployment, reader.node, reader.stake, to_checksum_address(owner)
    strategy, block = to_checksum_address(d.strategy), node.block_number()
    allocation, delegation = node.allocation_manager, node.delegation_manager
    operator_set = stake.operator_set()
    is_operator = stake.is_operator(me)
    delegated_to = node.call(delegation, "delegatedTo", me)
    is_set, delay = node.call(allocation, "getAllocationDelay", me)
    magnitude, pending, effect_block = node.call(allocation, "getAllocation", me, operator_set, strategy)
    deposit_shares = node.call(node.strategy_manager, "stakerDepositShares", me, strategy)
    (withdrawable,), _ = node.call(delegation, "getWithdrawableShares", me, [strategy])
    signer, *caps = stake.signer_of(me)
    account, locked = reader.market.balance_of(me), stake.locked_stake(me)
    is_member = stake.is_member(me)
    deallocation_delay = node.call(allocation, "DEALLOCATION_DELAY")
    answers = node.call(allocation, "isOperatorSlashable", me, operator_set)
    return Findings(
        block=block,
        owner=me,
        operator_set=operator_set,
        is_operator=is_operator,
        delegated_to="" if delegated_to in (_NOBODY, me) else delegated_to,
        allocation_delay=delay if is_set else None,
        delay_from=_delay_from(node, me, block) if is_operator and not is_set else 0,
        stake=stake.of(me) if is_operator else stake.worth_of(deposit_shares),
        deposit_shares=deposit_shares,
        withdrawable=stake.worth_of(withdrawable),
        withdrawals=_withdrawals(reader, me),
        tokens=reader.token.balance_of(me),
        stake_allowance=reader.token.allowance(me, d.strategy_manager),
        collateral_allowance=reader.token.allowance(me, d.task_market),
        magnitude=magnitude,
        pending=pending,
        effect_block=effect_block,
        allocatable=stake.allocatable_of(me),
        is_wiped_out=stake.magnitude_of(me) == 0,
        is_member=is_member,
        returns_from=_left_at(reader, me, block, deallocation_delay) if answers and not is_member else 0,
        signer=signer,
        caps=(caps[0], caps[1]),
        balance=account.balance,
        collateral=account.collateral,
        locked=locked,
        locked_until=_locked_until(reader, me, block) if locked else 0,
        seats=stake.seats_of(me),
        seat_stake=stake.seat_stake(),
        seat_deposit=seat_deposit(d.parameters),
        lasting=stake.lasting_stake(me) if is_member else 0,
    )


def _withdrawals(reader: Reader, owner: str) -> tuple[Withdrawal, ...]:
    """Those of the market's strategy alone."""
    node = reader.node
    delay = node.call(node.delegation_manager, "minWithdrawalDelayBlocks")
    queued, shares = node.call(node.delegation_manager, "getQueuedWithdrawals", owner)
    ours = [to_checksum_address(reader.deployment.strategy)]
    return tuple(
        Withdrawal(tuple(fields), fields[4] + delay + 1, reader.stake.worth_of(sum(left)))
        for fields, left in zip(queued, shares, strict=True)
        if list(fields[5]) == ours
    )


def _delay_from(node: Node, owner: str, block: int) -> int:
    """When the allocation delay that was set last takes effect; 0: none was set. The core has no view for it, and its
    event no topics to choose by."""
    wait = node.call(node.allocation_manager, "ALLOCATION_CONFIGURATION_DELAY") + 1
    manager = node.allocation_manager
    event = events_of(abi(manager.name))["AllocationDelaySet"]
    for stop in range(block, max(block - wait, -1), -SPAN):
        asked = {"fromBlock": max(stop - SPAN + 1, 0), "toBlock": stop, "topics": [event.topic]}
        logs = node.logs({**asked, "address": manager.address})
        with talking_to(node.network.rpc_url):
            logged = [event.values(log["topics"], log["data"]) for log in logs]
        for values in reversed(logged):
            if values["operator"] == owner:
                return int(values["effectBlock"])
    return 0


def _left_at(reader: Reader, owner: str, block: int, delay: int) -> int:
    """When who left the operator set may come back."""
    since = max(block - delay, reader.deployment.block)
    left = _events_of(reader.history, since, block, (None, [_topic(owner)]))
    return max((e.place.block + delay + 1 for e in left if isinstance(e, OperatorLeft)), default=0)


def _locked_until(reader: Reader, owner: str, block: int) -> int:
    """The last block in which a task may hold stake. No lock is longer than the stake's delay was."""
    since = max(block - 4 * reader.stake.stake_delay(), reader.deployment.block)
    events = _events_of(reader.history, since, block, (None, None, [_topic(owner)]))
    locks = (e for e in events if isinstance(e, Locked))
    return max((e.end for e in locks if reader.stake.lock_of(e.task, owner).end), default=0)


def _events_of(history: History, first: int, last: int, topics: Topics) -> list[Event]:
    return [event for start, stop in spans(first, last) for event in history.logs(start, stop, topics)]


def _topic(account: str) -> bytes:
    return bytes(12) + bytes.fromhex(account[2:])
