"""One local chain for all tests that need one; each test starts from the state right after the deployment. And for the
tests of a file, one service that executes here."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from eth_account import Account

from eigentensor.chain import Chain, Network, anvil_account, save_account, to_wei
from eigentensor.economics import WAD
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_local.anvil import Anvil, local_network
from eigentensor_serve.apps.registry import Apps
from support.gateways import gateway
from support.services import access, postgres_server, s3_server
from support.stories.game_table import CHALLENGER, CLIENT, OPERATORS, Table
from support.stories.market import Life, Orders, orders_of
from support.stories.served import served_here

Chains = Callable[[int], Chain]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["one view", "every view"])
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether pages are looked at closely in each colour scheme on each screen, or in one of these, page by page."""
    return bool(request.param)


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Anvil, Network]]:
    """The market, three operators, and account 2 as a client with tokens."""
    with local_network(map(anvil_account, OPERATORS)) as (anvil, network):
        with Chain(network, anvil_account(CLIENT), tmp_path_factory.mktemp("journals") / "client.sqlite") as client:
            client.token.mint(client.address, to_wei("10"))
            client.token.approve(network.deployment.task_market, to_wei("10"))
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


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server, up to the name of a database; skipped where none is installed."""
    with postgres_server() as url:
        if url is None:
            pytest.skip("not installed: postgresql")
        yield url


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The URL of an S3, a process that keeps all in memory. Whoever asks for a bucket finds it by the environment."""
    with s3_server() as url, pytest.MonkeyPatch.context() as patch:
        for name, value in access(url).items():
            patch.setenv(name, value)
        yield url


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str | None:
    """The URL of an aggregator's database: None is the SQLite of its folder, unless a test asks for "postgresql"."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return None
    server, name = request.getfixturevalue("postgres"), f"t{secrets.token_hex(8)}"
    with psycopg.connect(f"{server}postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}{name}"


@pytest.fixture
def settings(network: Network, tmp_path: Path, database: str | None) -> Settings:
    """An aggregator that pays for messages with account 3."""
    keystore, password = tmp_path / "aggregator.key", tmp_path / "aggregator.password"
    save_account(anvil_account(3), keystore, "local", iterations=1)
    password.write_text("local")
    path = network.save(tmp_path / "network.json")
    return Settings(
        network=str(path), port=0, data=tmp_path / "aggregator", poll=0.1, keystore=keystore, password_file=password,
        database=database,
    )  # fmt: skip


@pytest.fixture
def serve() -> Iterator[Callable[[Settings], tuple[str, Daemon]]]:
    """Starts aggregators in this process, each behind its own port, and ends them."""
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(gateway(settings))


@pytest.fixture(scope="module")
def served_apps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Apps, str]]:
    with served_here(tmp_path_factory.mktemp("apps")) as served:
        yield served


@pytest.fixture(scope="module")
def apps(served_apps: tuple[Apps, str]) -> Apps:
    return served_apps[0]


@pytest.fixture(scope="module")
def url(served_apps: tuple[Apps, str]) -> str:
    return served_apps[1]
