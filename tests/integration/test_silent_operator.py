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
    executor_before, burned_before = operator.balance_of(operator.address), operator.balance_of(burn)

    client.post(order)
    SilentOperator(operator, operator.address).accept(order)
    held = operator.held_of(operator.address)
    assert held == economics.collateral(parameters, order.max_price, order.verifiers, order.check_fee)

    with pytest.raises(Reverted) as early:
        anybody.close(order)
    assert early.value.name == "TooEarly"
    anvil.mine_past(client.deadline_of(uuid))
    (failed,) = [e for e in anybody.close(order).events if isinstance(e, Failed)]

    penalty = economics.penalty(parameters, order.max_price)
    escrow = order.max_price + order.verifiers * order.check_fee
    assert (failed.refund, failed.penalty) == (escrow, penalty) and penalty > 0
    assert client.task_at(uuid).state is State.FAILED
    assert client.balance_of(client.address).balance == escrow
    executor = operator.balance_of(operator.address)
    assert (executor_before.balance - executor.balance, operator.held_of(operator.address)) == (penalty, 0)
    assert client.locked_stake(operator.address) == 0
    assert operator.balance_of(burn).balance - burned_before.balance == penalty
    with pytest.raises(Reverted) as late:
        chain_of(4).close(order)
    assert late.value.name == "WrongState"
