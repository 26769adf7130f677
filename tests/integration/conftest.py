"""One local chain for all tests that need one; each test starts from the state right after the deployment."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvicorn
from eth_account import Account

from eigentensor import economics
from eigentensor.chain import NONE, Chain, Network, Order, anvil_account, save_account, to_wei
from eigentensor.economics import WAD
from eigentensor.testing.localnet import Anvil, local_network
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.service import assembled
from game_table import Table
from market_life import Life

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]


#: Accounts that are operators which sign for themselves: an acceptance needs seats of others.
OPERATORS = (1, 6, 7)


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Anvil, Network]]:
    """The market, three operators, and account 2 as a client with tokens."""
    with local_network(map(anvil_account, OPERATORS)) as (anvil, network):
        with Chain(network, anvil_account(2), tmp_path_factory.mktemp("journals") / "2.sqlite") as client:
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
    """Account 1: a member of the operator set that signs for itself."""
    return chain_of(1)


@pytest.fixture
def verifiers(chain_of: Chains) -> list[Chain]:
    """The other operators."""
    return [chain_of(index) for index in OPERATORS[1:]]


@pytest.fixture
def client(chain_of: Chains) -> Chain:
    """Account 2, with tokens in its pocket and none in the market."""
    return chain_of(2)


@pytest.fixture
def order_of(client: Chain) -> Orders:
    """Orders of the client that differ from each other and otherwise say what is given.

    They are checked as seldom as the market allows, for the lowest fee.
    """
    made = 0
    parameters = client.deployment.parameters

    def make(**changes: object) -> Order:
        nonlocal made
        made += 1
        fields: dict[str, object] = {
            "client": client.address, "nonce": made, "semantics": 1, "program": b"\1" * 32, "inputs": NONE,
            "weights": NONE, "states": NONE, "variables": NONE, "repeat": 1, "min_price": to_wei("0.01"),
            "max_price": to_wei("0.02"), "ramp_start": 0, "ramp_length": 0, "check_rate": parameters.check_floor,
            "verifiers": 1, "value_at_risk": 0, "exec": 10, "accept_by": client.block_number() + 20, "operators": NONE,
        }  # fmt: skip
        fields |= changes
        fee = economics.check_fee_bound(parameters, fields["max_price"])  # type: ignore[arg-type]
        return Order(**({"check_fee": fee} | fields))  # type: ignore[arg-type]

    return make


@pytest.fixture
def life(anvil: Anvil, client: Chain, operator: Chain, order_of: Orders) -> Life:
    """A task that is certainly checked."""
    return Life(anvil, client, operator, order_of(check_rate=WAD))


@pytest.fixture
def table(anvil: Anvil, client: Chain, operator: Chain, chain_of: Chains, order_of: Orders) -> Table:
    """Where disputes are played: all sides have deposited for a hundred tasks; account 4 challenges."""
    challenger = chain_of(4)
    for chain in (client, operator, challenger):
        chain.mint(chain.address, 20 * WAD)
        chain.deposit(chain.address, 20 * WAD)
    return Table(anvil, client, operator, challenger, order_of)


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
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
            thread = threading.Thread(target=server.run, args=([listening],))
            thread.start()

            def stop() -> None:
                server.should_exit = True
                thread.join()

            stack.callback(stop)
            return f"http://127.0.0.1:{listening.getsockname()[1]}", daemon

        yield start
