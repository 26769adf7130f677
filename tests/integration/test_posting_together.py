"""One account that posts from many processes at once: each order becomes a task, whatever the others approve."""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from eigentensor.chain import Chain, Network, anvil_account
from eigentensor.chain.sender import Message
from eigentensor.errors import Reverted
from eigentensor.task import Order, State, order_uuid
from eigentensor_local.anvil import Anvil
from support.stories.game_table import CLIENT
from support.stories.market import post_apart

TOGETHER, PROCESSES = 25, 3
LATER = 10**6  # a block that no test gets to
Orders = Callable[..., Order]


@pytest.fixture(autouse=True)
def nothing_is_allowed(client: Chain) -> None:
    """As it is for a new account."""
    client.token.approve(client.deployment.task_market, 0)


@pytest.mark.slow
def test_many_processes_of_one_account_post_at_once(
    anvil: Anvil, network: Network, client: Chain, order_of: Orders, tmp_path: Path
) -> None:
    orders = [order_of(nonce=1_000 + number, accept_by=LATER) for number in range(TOGETHER)]
    anvil.rpc("evm_setAutomine", False)
    anvil.rpc("anvil_setIntervalMining", 1)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["market_life"])
    with ProcessPoolExecutor(PROCESSES, processes) as pool:
        journals = [tmp_path / "shared.sqlite"] * PROCESSES
        shares = [orders[number::PROCESSES] for number in range(PROCESSES)]
        errors = pool.map(post_apart, [network] * PROCESSES, journals, [CLIENT] * PROCESSES, shares)
        assert [error for share in errors for error in share] == [""] * TOGETHER
    tasks = [order_uuid(order, client.deployment.domain) for order in orders]
    assert {client.market.task_at(task).state for task in tasks} == {State.OPEN}


def test_what_another_machine_takes_is_approved_again(
    anvil: Anvil, network: Network, client: Chain, order_of: Orders, tmp_path: Path
) -> None:
    """Its journal is another one: nobody here knows what it has on its way."""
    theirs, ours = order_of(nonce=2_000, accept_by=LATER), order_of(nonce=2_001, accept_by=LATER)
    market = client.deployment.task_market
    client.token.approve(market, theirs.max_price + theirs.check_fee)
    anvil.rpc("evm_setAutomine", False)
    with Chain(network, anvil_account(CLIENT), tmp_path / "elsewhere.sqlite") as elsewhere:
        elsewhere.sender.submit(Message.of(elsewhere.node.market, "post", theirs.as_tuple(), b""))
        with ThreadPoolExecutor(1) as pool:
            posted = pool.submit(client.market.post, ours)
            while not posted.done():
                time.sleep(0.1)
                if int(anvil.rpc("txpool_status")["pending"], 16) > 1:  # theirs, and what ours waits for
                    anvil.rpc("evm_setAutomine", True)
                    anvil.mine()
            posted.result()
    for order in (theirs, ours):
        assert client.market.task_at(order_uuid(order, client.deployment.domain)).state is State.OPEN


def test_a_refused_order_approves_nothing(client: Chain, order_of: Orders) -> None:
    sent = client.node.transaction_count(client.address)
    with pytest.raises(Reverted, match="WrongCheckRate") as refused:
        client.market.post(order_of(check_rate=5))
    assert refused.value.fix
    assert client.node.transaction_count(client.address) == sent
