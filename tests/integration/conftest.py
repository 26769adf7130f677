"""One local chain for all tests that need one; each test starts from the state right after the deployment. And for the
tests of a file, one service that executes here."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from eth_account import Account

from eigentensor.chain import Chain, Network, anvil_account, save_account, to_wei
from eigentensor.economics import WAD
from eigentensor.testing.localnet import Anvil, local_network
from eigentensor.web.server import server
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.service import assembled
from eigentensor_client.serving.apps import Apps
from game_table import CHALLENGER, CLIENT, OPERATORS, Table
from market_life import Life, Orders, orders_of
from served import served_here

Chains = Callable[[int], Chain]


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Anvil, Network]]:
    """The market, three operators, and account 2 as a client with tokens."""
    with local_network(map(anvil_account, OPERATORS)) as (anvil, network):
        with Chain(network, anvil_account(CLIENT), tmp_path_factory.mktemp("journals") / "client.sqlite") as client:
            client.mint(client.address, to_wei("10"))
            client.approve(network.deployment.task_market, to_wei("10"))
        yield anvil, network


@pytest.fixture
def anvil(deployed: tuple[Anvil, Network]) -> Iterator[Anvil]:
    anvil, _ = deployed
    # Without equal blocks: when anvil drops the state of an old one, it forgets that of its twin, and cannot roll back.
    anvil.rpc("anvil_setCoinbase", Account.create().address)
    snapshot = anvil.rpc("evm_snapshot")
    yield anvil
    anvil.rpc("evm_setAutomine", True)
    assert anvil.rpc("evm_revert", snapshot)


@pytest.fixture
def network(anvil: Anvil, deployed: tuple[Anvil, Network]) -> Network:
    return deployed[1]


@pytest.fixture
def chain_of(network: Network, tmp_path: Path) -> Iterator[Chains]:
    """The chain as one of anvil's accounts, each with a journal of its own."""
    chains: dict[int, Chain] = {}
    with ExitStack() as stack:

        def make(index: int) -> Chain:
            if index not in chains:
                journal = tmp_path / f"journal-{index}.sqlite"
                chains[index] = stack.enter_context(Chain(network, anvil_account(index), journal, deadline=20))
            return chains[index]

        yield make


@pytest.fixture
def operator(chain_of: Chains) -> Chain:
    """A member of the operator set that signs for itself."""
    return chain_of(OPERATORS[0])


@pytest.fixture
def verifiers(chain_of: Chains) -> list[Chain]:
    """The other operators."""
    return [chain_of(index) for index in OPERATORS[1:]]


@pytest.fixture
def client(chain_of: Chains) -> Chain:
    """With tokens in its pocket and none in the market."""
    return chain_of(CLIENT)


@pytest.fixture
def order_of(client: Chain) -> Orders:
    return orders_of(client)


@pytest.fixture
def life(anvil: Anvil, client: Chain, operator: Chain, order_of: Orders) -> Life:
    """A task that is certainly checked."""
    return Life(anvil, client, operator, order_of(check_rate=WAD))


@pytest.fixture
def table(anvil: Anvil, client: Chain, operator: Chain, chain_of: Chains) -> Table:
    """Where disputes are played."""
    return Table.of(anvil, client, operator, chain_of(CHALLENGER))


@pytest.fixture
def settings(network: Network, tmp_path: Path) -> Settings:
    """An aggregator that pays for messages with account 3."""
    keystore, password = tmp_path / "aggregator.key", tmp_path / "aggregator.password"
    save_account(anvil_account(3), keystore, "local", iterations=1)
    password.write_text("local")
    path = network.save(tmp_path / "network.json")
    return Settings(
        network=str(path), port=0, data=tmp_path / "aggregator", poll=0.1, keystore=keystore, password_file=password
    )


@pytest.fixture
def serve() -> Iterator[Callable[[Settings], tuple[str, Daemon]]]:
    """Starts aggregators in this process, each behind its own port, and ends them."""
    with ExitStack() as stack:

        def start(settings: Settings) -> tuple[str, Daemon]:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            app, daemon = stack.enter_context(assembled(settings))
            running = server(app)
            thread = threading.Thread(target=running.run, args=([listening],))
            thread.start()

            def stop() -> None:
                running.should_exit = True
                thread.join()

            stack.callback(stop)
            return f"http://127.0.0.1:{listening.getsockname()[1]}", daemon

        yield start


@pytest.fixture(scope="module")
def served_apps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Apps, str]]:
    with served_here(tmp_path_factory.mktemp("apps")) as found:
        yield found


@pytest.fixture(scope="module")
def apps(served_apps: tuple[Apps, str]) -> Apps:
    return served_apps[0]


@pytest.fixture(scope="module")
def url(served_apps: tuple[Apps, str]) -> str:
    return served_apps[1]
