"""Whatever time there is between blocks: what has windows of blocks counts blocks, and what has seconds is not late."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from eigentensor.chain import anvil_account
from eigentensor.economics import WAD
from eigentensor.merkle import operators_root
from eigentensor.store import LocalStore
from eigentensor.task import Order, State, order_uuid
from eigentensor_client.accounts import CLIENT
from eigentensor_client.client import Client
from eigentensor_local.devnet import Devnet, devnet
from support.stories.daemons import TERMS, start_watcher, work_of
from support.stories.game_table import brought

#: Blocks for an execution, and how long all may take, in seconds beside so many blocks.
EXEC, BLOCKS, PATIENCE = 60, 60, 300


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seconds", [0.2, 12.0])
def test_a_task_is_paid_and_a_lie_convicted(seconds: float, tmp_path: Path) -> None:
    with devnet(2, liars=1, block_time=seconds, path=tmp_path / "network.json") as net:
        with net.anvil.hurried():
            watcher = net.party("watcher")
        start_watcher(net, watcher, block_seconds=str(seconds))
        with Client(net.network, anvil_account(CLIENT), LocalStore(tmp_path)) as client:
            orders = [order_for(net, client, number) for number in range(len(net.operators))]
            client.send(orders)
            states = ended(net, client, orders, time.monotonic() + PATIENCE + BLOCKS * seconds)
            assert states == [State.FINAL, State.CONVICTED], (states, net.processes["watcher"].tail())
            assert client.chain.stake.magnitude_of(net.operators[0].address) == WAD
            winner = client.chain.market.conviction_of(uuid(client, orders[1])).winner
            assert winner in (watcher.address, net.operators[0].signer.address)  # who may be drawn to check


def order_for(net: Devnet, client: Client, number: int) -> Order:
    """A task that one of the operators alone may accept."""
    admitted = operators_root([bytes.fromhex(net.operators[number].address[2:])])
    terms = replace(TERMS, exec=EXEC, operators=admitted)
    (order,) = client.prepare([work_of(brought("long sum"))], terms)
    return order


def ended(net: Devnet, client: Client, orders: list[Order], until: float) -> list[State]:
    """How tasks ended; blocks come at once where nobody has anything to do in them: before a seed, and in the window of
    an honest result."""
    chain = client.chain
    while time.monotonic() < until:
        tasks = [chain.market.task_at(uuid(client, order)) for order in orders]
        if all(task.state.is_terminal for task in tasks):
            break
        seeds = map(chain.market.seed_block_of, map(partial(uuid, client), orders))
        awaited = max(seeds) + chain.deployment.parameters.confirmations
        if awaited > chain.node.block_number() and all(task.state is not State.ACCEPTED for task in tasks):
            net.anvil.mine()
        if tasks[0].state is State.REVEALED and tasks[1].state.is_terminal:
            net.anvil.mine(5)
        time.sleep(0.3)
    return [chain.market.task_at(uuid(client, order)).state for order in orders]


def uuid(client: Client, order: Order) -> bytes:
    """The task of an order."""
    return order_uuid(order, client.chain.deployment.domain)
