"""A liar's daemon against a watcher's, process against process, on a chain where something happens at every move."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from eigentensor import economics
from eigentensor.chain import GameView, anvil_account, to_wei
from eigentensor.chain.units import GWEI
from eigentensor.dispute import Reason
from eigentensor.errors import ChainError
from eigentensor.merkle import operators_root
from eigentensor.store import LocalStore
from eigentensor.task import State
from eigentensor_client.client import Client
from eigentensor_local.anvil import join
from eigentensor_local.devnet import Devnet, Party
from eigentensor_local.processes import Running
from support.stories.daemons import (
    PATIENCE,
    TERMS,
    network_of,
    pass_draw,
    start,
    start_watcher,
    until,
    wait_for,
    work_of,
)
from support.stories.game_table import brought

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    """With an operator that never runs: an acceptance needs the seats of others."""
    with network_of(tmp_path_factory.mktemp("network") / "games.json") as net:
        join(net.network, net.party("other").owner)
        yield net


@pytest.fixture
def client(net: Devnet, tmp_path: Path) -> Iterator[Client]:
    with Client(net.network, anvil_account(2), LocalStore(tmp_path)) as client:
        client.chain.token.mint(client.address, to_wei("1"))
        yield client


@dataclass
class Match:
    """The executor's process and the challenger's, which are started anew as often as they end."""

    net: Devnet
    client: Client
    random: Random
    liar: Party
    watcher: Party

    def start_liar(self) -> Running:
        return start(self.net, self.liar, module="eigentensor_local.actors")

    def start_watcher(self) -> Running:
        return start_watcher(self.net, self.watcher)

    def kill_liar(self) -> None:
        self.net.processes[self.liar.name].kill()
        self.start_liar()

    def kill_watcher(self) -> None:
        self.net.processes[self.watcher.name].kill()
        self.start_watcher()

    def kill_both(self) -> None:
        self.kill_liar()
        self.kill_watcher()

    def reorganise(self) -> None:
        """The newest blocks are others now, without the move, or without more."""
        self.net.anvil.rollback(self.random.randint(1, 3))
        self.net.anvil.mine(self.random.randint(0, 2))

    def raise_fees(self) -> None:
        self.net.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(300 * GWEI))
        self.net.anvil.mine()

    def silence_node(self) -> None:
        os.kill(self.net.anvil.process.pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(self.net.anvil.process.pid, signal.SIGCONT)

    def hurry(self) -> None:
        self.net.anvil.mine(5)

    def silence_gateway(self) -> None:
        self.net.processes["aggregator"].stop()

    def anything(self) -> None:
        self.random.choice([self.kill_liar, self.kill_watcher, self.reorganise, self.raise_fees, self.hurry])()


HAPPENINGS = (
    Match.kill_liar,
    Match.kill_watcher,
    Match.kill_both,
    Match.reorganise,
    Match.raise_fees,
    Match.silence_node,
    Match.silence_gateway,
    Match.hurry,
    Match.anything,
)


@pytest.mark.parametrize("happens", HAPPENINGS, ids=lambda happens: happens.__name__)
def test_a_liar_is_convicted_whatever_happens_at_every_move(
    net: Devnet, client: Client, happens: Callable[[Match], None]
) -> None:
    name = happens.__name__
    match = Match(net, client, Random(name), net.party(f"liar-{name}"), net.party(f"watcher-{name}"))
    join(net.network, match.liar.owner, signer=match.liar.signer.address)
    lying = match.start_liar()
    admitted = operators_root([bytes.fromhex(match.liar.address[2:])])
    (task,) = client.post([work_of(brought("long sum"))], replace(TERMS, exec=60, operators=admitted))
    pass_draw(net, client, task)
    wait_for(lying, "upload")
    match.start_watcher()
    uuid, chain = bytes.fromhex(task.uuid), client.chain
    until(lambda: bool(chain.games.open(uuid)))
    (number,) = chain.games.open(uuid)

    def game() -> GameView | None:
        try:
            return chain.games.at(number)
        except ChainError:
            return None  # its opening was taken back, or the node is silent

    moves, end = -1, time.monotonic() + 4 * PATIENCE
    while (view := game()) is None or view.ended is None:
        if view is not None and len(view.moves) > moves:
            moves = len(view.moves)
            happens(match)
        assert time.monotonic() < end, lying.tail()
        time.sleep(0.02)
    assert (view.ended.executor_lost, view.ended.reason) == (True, Reason.VERDICT)
    until(lambda: chain.market.task_at(uuid).state is State.CONVICTED)
    won = economics.bond(chain.deployment.parameters, TERMS.max_price) + economics.reward(
        chain.deployment.parameters, TERMS.max_price
    )
    assert chain.market.balance_of(match.watcher.address).balance == won
    assert moves > 2
    for process in (match.liar.name, match.watcher.name):
        net.processes[process].stop()
    if not net.processes["aggregator"].running:
        net.start_aggregator().wait_ready()
