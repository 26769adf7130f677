"""An executor that goes silent loses the penalty and nothing more; the client loses nothing; anybody can end it."""

from collections.abc import Callable

import pytest

from eigentensor import economics
from eigentensor.chain import Chain
from eigentensor.errors import Reverted
from eigentensor.task import Failed, Order, State, order_uuid
from eigentensor_local.actors import SilentOperator
from eigentensor_local.anvil import Anvil


def test_anybody_ends_the_task_of_a_silent_executor(
    anvil: Anvil, operator: Chain, client: Chain, order_of: Callable[..., Order], chain_of: Callable[[int], Chain]
) -> None:
    order, parameters = order_of(), operator.deployment.parameters
    uuid = order_uuid(order, client.deployment.domain)
    anybody, burn = chain_of(3), client.deployment.burn
    executor_before, burned_before = operator.market.balance_of(operator.address), operator.market.balance_of(burn)

    client.market.post(order)
    SilentOperator(operator, operator.address).accept(order)
    held = operator.market.held_of(operator.address)
    assert held == economics.collateral(parameters, order.max_price, order.verifiers, order.check_fee)

    with pytest.raises(Reverted) as early:
        anybody.market.close(order)
    assert early.value.name == "TooEarly"
    anvil.mine_past(client.market.deadline_of(uuid))
    (failed,) = [e for e in anybody.market.close(order).events if isinstance(e, Failed)]

    penalty = economics.penalty(parameters, order.max_price)
    escrow = order.max_price + order.verifiers * order.check_fee
    assert (failed.refund, failed.penalty) == (escrow, penalty) and penalty > 0
    assert client.market.task_at(uuid).state is State.FAILED
    assert client.market.balance_of(client.address).balance == escrow
    executor = operator.market.balance_of(operator.address)
    assert (executor_before.balance - executor.balance, operator.market.held_of(operator.address)) == (penalty, 0)
    assert client.stake.locked_stake(operator.address) == 0
    assert operator.market.balance_of(burn).balance - burned_before.balance == penalty
    with pytest.raises(Reverted) as late:
        chain_of(4).market.close(order)
    assert late.value.name == "WrongState"
