"""What happens to EigenLayer's core and to the stake in it, and what an operator makes of it."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from eth_utils.address import to_checksum_address

from eigentensor import economics
from eigentensor.chain import Chain
from eigentensor.economics import WAD
from eigentensor.errors import Reverted
from eigentensor.task import Life, Order, State
from eigentensor_local.anvil import STAKE, Anvil
from eigentensor_local.contracts import DEPLOYER
from eigentensor_operator import policy as rules
from eigentensor_operator.alarms import Alarm, alarms_of
from eigentensor_operator.batches.running import Running
from eigentensor_operator.batches.steps import Steps as BatchSteps
from eigentensor_operator.batches.store import BatchStore
from eigentensor_operator.case import Case
from eigentensor_operator.lanes import Lane
from eigentensor_operator.metrics import Metrics
from eigentensor_operator.policy import Claims, Code, Policy, Reason
from eigentensor_operator.reading import ASK, rest, standing_at, standing_of
from eigentensor_operator.state import Operator
from support.stories.core import AGREEABLE, act_as, core, message, put_behind_a_proxy, upgrade
from support.stories.market import Orders

Look = Callable[[], tuple[dict[Alarm, str], Reason | None]]
SLASHING = 2
DELAY = 1_000
NOBODY = "0x" + "00" * 20


@pytest.fixture
def order(order_of: Orders) -> Order:
    return order_of(check_rate=WAD, accept_by=1 << 40)


@pytest.fixture
def policy(operator: Chain) -> Policy:
    return Policy(operator.address, operator.deployment.parameters, operator.deployment.domain)


@pytest.fixture
def look(operator: Chain, order: Order, policy: Policy) -> Look:
    """The operator's alarms, and why it would not take the order now."""

    def look() -> tuple[dict[Alarm, str], Reason | None]:
        standing = standing_of(operator, policy, operator.node.block_number(), operator.address)
        return dict(alarms_of(policy, standing)), rules.refuse_now(policy, order, standing, Claims())

    return look


def test_nothing_is_wrong_at_first(look: Look) -> None:
    assert look() == ({}, None)


def test_the_core_is_asked_again_after_some_blocks_and_at_once_when_seats_or_membership_change(
    operator: Chain, policy: Policy
) -> None:
    me, block = operator.address, operator.node.block_number()
    first = standing_of(operator, policy, block, me)
    assert standing_of(operator, policy, block + ASK - 1, me, first).backing is first.backing
    assert standing_of(operator, policy, block + ASK, me, first).backing.asked == block + ASK
    assert standing_of(operator, policy, block + 1, NOBODY, first).backing.asked == block + 1
    operator.stake.enlist(me, 1)
    assert standing_of(operator, policy, block + 2, me, first).backing.asked == block + 2


def test_a_quiet_block_costs_two_requests_and_one_in_which_something_is_weighed_all(
    operator: Chain, anvil: Anvil, policy: Policy, order: Order, tmp_path: Path
) -> None:
    """INVARIANTS 25, 26: the number of the newest block is always the chain's own."""
    anvil.mine()
    heads = list(operator.history.changes().heads)
    me = Operator(policy, standing=standing_of(operator, policy, heads[-1].number, operator.address))
    assert me.standing is not None
    metrics, store = Metrics("TOKEN"), BatchStore(tmp_path / "batches.sqlite")
    hands = BatchSteps(operator, None, None, None, tmp_path / "draining", me.policy.operator)  # type: ignore[arg-type]
    batches = Running(operator, store, hands, policy, metrics, None)
    batches.start(lambda _: None, Lane("device", 1), heads[-1])
    batches.stands(me)
    anvil.mine()
    with requests() as asked:
        changes = operator.history.changes(heads)
        (head,) = changes.heads
        standing = standing_at(operator, me, head.number, quiet=not changes.events)
        batches.stands(replace(me, standing=standing))
    assert asked == ["eth_getBlockByNumber", "eth_getLogs"]
    batches.close()
    assert standing == replace(me.standing, block=heads[-1].number + 1)
    with requests() as asked:
        assert operator.history.changes([head]).heads == ()
    assert asked == ["eth_getBlockByNumber"]

    life = Life(order.program, order, policy.parameters, State.OPEN, head.number)
    posted = me.replaced(Case(life))
    for known, block, quiet in (
        (me, head.number, False),
        (me, heads[-1].number + ASK, True),
        (posted, head.number, True),
    ):
        assert standing_at(operator, known, block, quiet=quiet).asked == block
    assert standing_at(operator, me, heads[-1].number - 1, quiet=True).asked == heads[-1].number - 1  # rolled back
    quick, first = replace(me, policy=replace(policy, block_seconds=1.0)), me.standing.asked
    asked_at = [standing_at(operator, quick, first + blocks, quiet=True).asked - first for blocks in (15, 16)]
    assert asked_at == [0, 16] and rest(replace(policy, block_seconds=0.2)) == 64


def test_a_queued_withdrawal_is_told_and_what_is_left_limits_what_is_accepted(operator: Chain, look: Look) -> None:
    strategy = operator.deployment.strategy
    core(operator, "delegation_manager", "queueWithdrawals", [([strategy], [STAKE - 10**15], NOBODY)])
    alarms, refused = look()
    assert alarms.keys() == {Alarm.QUEUED, Alarm.SEATS}
    assert str(STAKE - 10**15) in alarms[Alarm.QUEUED] and "0 of 2 seats" in alarms[Alarm.SEATS]
    assert refused is not None and refused.code is Code.STAKE and not refused.lasting


def test_a_pending_deallocation_is_told_with_its_block(operator: Chain, anvil: Anvil, look: Look) -> None:
    receipt = operator.stake.allocate(WAD // 4)
    gone_by = receipt.block + DELAY + 1
    alarms, refused = look()
    assert alarms == {Alarm.DEALLOCATING: f"75.000000% of the stake leaves the operator set in block {gone_by}"}
    assert refused is None  # all tasks end before
    anvil.mine_past(gone_by)
    assert look() == ({}, None)


def test_a_slash_by_another_operator_set_is_told_and_takes_nothing_that_backs_tasks_here(
    operator: Chain, anvil: Anvil, look: Look
) -> None:
    avs, strategy = to_checksum_address("0x" + "a5" * 20), operator.deployment.strategy
    anvil.rpc("anvil_setCode", avs, AGREEABLE)
    manager = "allocation_manager"
    act_as(anvil, avs, message(operator, manager, "updateAVSMetadataURI", avs, ""))
    create = "createOperatorSets(address,(uint32,address[],address)[])"
    act_as(anvil, avs, message(operator, manager, create, avs, [(7, [strategy], avs)]))
    operator.stake.allocate(WAD // 2)
    anvil.mine(DELAY + 1)
    core(operator, manager, "modifyAllocations", operator.address, [((avs, 7), [strategy], [WAD // 2])])
    core(operator, manager, "registerForOperatorSets", operator.address, (avs, [7], b""))
    end = operator.node.block_number() + 100
    before = operator.stake.free_stake(operator.address, end)
    slash = (operator.address, 7, [strategy], [WAD // 2], "theirs")
    act_as(anvil, avs, message(operator, manager, "slashOperator", avs, slash))
    alarms, refused = look()
    assert alarms.keys() == {Alarm.SLASHED} and alarms[Alarm.SLASHED].startswith("25.000000% ")
    assert refused is None
    assert abs(operator.stake.free_stake(operator.address, end) - before) < 1_024


def test_while_slashing_is_paused_nothing_is_accepted(look: Look, chain_of: Callable[[int], Chain]) -> None:
    pauser = chain_of(DEPLOYER)
    core(pauser, "allocation_manager", "pause", SLASHING)
    alarms, refused = look()
    assert alarms.keys() == {Alarm.PAUSED}
    assert refused == Reason(Code.CORE, "an EigenLayer that can slash", "slashing is paused", lasting=False)
    core(pauser, "allocation_manager", "unpause", 0)
    assert look() == ({}, None)


@pytest.mark.parametrize("proxied", [False, True], ids=["plain", "behind a proxy"])
def test_an_upgrade_to_shorter_delays_is_told_and_longer_tasks_are_refused(
    operator: Chain, client: Chain, anvil: Anvil, order: Order, look: Look, proxied: bool
) -> None:
    if proxied:
        put_behind_a_proxy(anvil, operator.deployment.delegation_manager)
    p = operator.deployment.parameters
    shorter = economics.lifetime(p, order.exec) - 1
    upgrade(anvil, operator.deployment.delegation_manager, DELAY, shorter)
    alarms, refused = look()
    assert alarms.keys() == {Alarm.DELAYS}
    assert f"for {shorter} blocks only: tasks of more than {order.exec - 1} blocks" in alarms[Alarm.DELAYS]
    assert refused is not None and refused.code is Code.LIFETIME and not refused.lasting
    client.market.post(order)
    with pytest.raises(Reverted, match="OutlivesStake"):
        operator.market.accept(operator.address, order)
    upgrade(anvil, operator.deployment.delegation_manager, shorter, 2)
    assert "every task is refused" in look()[0][Alarm.DELAYS]


@contextmanager
def requests() -> Iterator[list[str]]:
    """The methods that nodes are asked for meanwhile."""
    asked: list[str] = []
    stream = httpx.Client.stream

    def noted(http: httpx.Client, method: str, url: str, **how: Any) -> AbstractContextManager[httpx.Response]:
        questions = json.loads(how["content"])
        asked.extend(one["method"] for one in (questions if isinstance(questions, list) else [questions]))
        return stream(http, method, url, **how)

    with patch.object(httpx.Client, "stream", noted):
        yield asked
