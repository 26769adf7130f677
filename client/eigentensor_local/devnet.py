"""A local network: anvil with the contracts, an aggregator and operators, each its own process, all ended together."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from eigentensor import spending, traces
from eigentensor.chain import (
    Chain,
    Goal,
    Network,
    Reader,
    Status,
    anvil_account,
    carry_out,
    joining,
    save_account,
    to_wei,
)
from eigentensor.chain.keys import new_account
from eigentensor.chain.network import DEFAULT, network_path
from eigentensor.errors import ChainError, ConfigError
from eigentensor.extras import require
from eigentensor.merkle import program_root
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.talk import doing
from eigentensor.task import NONE
from eigentensor_client.accounts import CLIENT, running
from eigentensor_client.screen import Screen
from eigentensor_local.anvil import FIRST_BLOCK, Anvil, start_anvil
from eigentensor_local.contracts import DEPLOYER, deploy
from eigentensor_local.ports import free_port
from eigentensor_local.processes import Processes, Running, ended_by_signals

if TYPE_CHECKING:
    from eigentensor.task.signatures import Key

PASSWORD = "local"  # of keystores that guard nothing but test tokens
STAKE = COLLATERAL = to_wei("10")
CLIENT_TOKENS = to_wei("100")
CALL_PRICE = "0.0001"
AGGREGATOR_READY = r"listening"
COMMAND, LIAR = "eigentensor_client", "eigentensor_local.actors"  # modules that are the command `eigentensor`
OPERATOR_READY = r"\bready\b"
Settings = Mapping[str, str | Path]


@dataclass(frozen=True, slots=True)
class Party:
    """An operator of the local network: its owner's and its signer's key, and the folder that holds all it has."""

    name: str
    owner: "Key"
    signer: "Key"
    folder: Path

    @property
    def address(self) -> str:
        """The owner's address."""
        return str(self.owner.address)


class Devnet:
    """A local network whose daemons are started, killed and started again by name."""

    def __init__(
        self, anvil: Anvil, network: Network, path: Path, processes: Processes, folder: Path, block_time: float | None
    ) -> None:
        self.anvil = anvil
        self.block_time = block_time or 1.0
        self.network = network
        self.path = path
        self.processes = processes
        self.folder = folder
        self.operators: list[Party] = []
        self.calls_url = ""  #: where its first operator takes paid calls

    @cached_property
    def stake(self) -> int:
        """Wei that each operator stakes: two of them have seats enough for the market's checks."""
        others = self.network.deployment.parameters.other_seats
        return max(STAKE, Reader(self.network).stake.seat_stake() * -(-others // 2))

    def environment(self, folder: Path, settings: Settings) -> dict[str, str]:
        """What a daemon sees: this network, a blob cache and a folder for temporary files of its own, its settings, and
        whom it tells of its part in tasks."""
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        ours = {name for name in os.environ if name.startswith("EIGENTENSOR_") and name != traces.COLLECTOR}
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        own = {
            "EIGENTENSOR_NETWORK": self.path,
            "EIGENTENSOR_CACHE_DIR": folder / "cache",
            "XDG_STATE_HOME": folder / "state",
            "TMPDIR": folder / "tmp",
            **settings,
        }
        return kept | {name: str(value) for name, value in own.items()}

    def party(self, name: str) -> Party:
        """A new operator-to-be with coins for gas and tokens for stake and collateral. It has not joined."""
        party = Party(name, new_account(), new_account(), self.folder / name)
        for word, account in (("owner", party.owner), ("signer", party.signer)):
            save_account(account, party.folder / f"{word}.json", PASSWORD, iterations=1)
            self.anvil.fund(account.address)
        (party.folder / "password").write_text(PASSWORD)
        self.mint(party.address, self.stake + COLLATERAL)
        return party

    def mint(self, address: str, amount: int) -> None:
        """Makes test tokens for an account."""
        with Chain(self.network, anvil_account(DEPLOYER), self.folder / "deployer.sqlite") as chain:
            chain.token.mint(address, amount)

    def start_aggregator(self, more: Settings | None = None) -> Running:
        """Starts the aggregator's daemon, with a funded relay key."""
        folder = self.folder / "aggregator"
        if not (folder / "relay.json").exists():
            relay = new_account()
            save_account(relay, folder / "relay.json", PASSWORD, iterations=1)
            (folder / "password").write_text(PASSWORD)
            self.anvil.fund(relay.address)
        settings: Settings = {
            "EIGENTENSOR_AGGREGATOR_DATA": folder,
            "EIGENTENSOR_AGGREGATOR_PORT": self.network.gateway_url.rpartition(":")[2],
            "EIGENTENSOR_AGGREGATOR_KEYSTORE": folder / "relay.json",
            "EIGENTENSOR_AGGREGATOR_PASSWORD_FILE": folder / "password",
            "EIGENTENSOR_AGGREGATOR_WATCH_BLOCK_SECONDS": str(self.block_time),
            **(more or {}),
        }
        return self._start("aggregator", ["aggregator", "run"], self.environment(folder, settings), AGGREGATOR_READY)

    def join(self, party: Party, *, seats: bool = True) -> None:
        """Makes it an operator that has stake, collateral and, unless it wants none, as many seats as it can have: the
        plan of `operator up`, carried out here, which saves a process."""
        with Chain(self.network, party.owner, party.folder / "owner-transactions.sqlite") as chain:
            goal = Goal(
                signer=party.signer.address,
                stake=self.stake,
                collateral=COLLATERAL,
                collateral_cap=COLLATERAL,
                stake_cap=chain.stake.shares_of(self.stake),
                seats=self.stake // chain.stake.seat_stake() if seats else 0,
            )
            steps = carry_out(chain, lambda findings: joining(findings, goal, chain.deployment))
        if left := [step.name for step in steps if step.status is not Status.DONE]:
            raise ChainError(f"{party.name} could not join: {', '.join(left)}")

    def start_operator(self, party: Party, more: Settings | None = None, *, lies: bool = False) -> Running:
        """Starts the daemon of an operator, which may join meanwhile; one that `lies` flips a bit of whatever it
        computes."""
        settings: Settings = {
            "EIGENTENSOR_OPERATOR_DATA_DIR": party.folder,
            "EIGENTENSOR_OPERATOR_KEYSTORE": party.folder / "signer.json",
            "EIGENTENSOR_OPERATOR_PASSWORD_FILE": party.folder / "password",
            "EIGENTENSOR_OPERATOR_ADDRESS": party.address,
            "EIGENTENSOR_OPERATOR_PORT": "0",
            "EIGENTENSOR_OPERATOR_BLOCK_SECONDS": str(self.block_time),
            "EIGENTENSOR_OPERATOR_POLL_SECONDS": "0.2",
            **(more or {}),
        }
        environment = self.environment(party.folder, settings)
        return self._start(party.name, ["operator", "run"], environment, OPERATOR_READY, LIAR if lies else COMMAND)

    def calls(self, party: Party, program: bytes, weights: bytes, price: str) -> tuple[Settings, str]:
        """What lets an operator's daemon serve paid calls of a program, which the gateway has with its weights, for
        `price` tokens each; and where it will. Its signer gets tokens, out of which it deposits what batches hold."""
        self.mint(party.signer.address, COLLATERAL)
        table = f'[[call_programs]]\nprogram = "{program.hex()}"\nweights = "{weights.hex()}"\nprice = "{price}"\n'
        (party.folder / "operator.toml").write_text(table)
        address = f"127.0.0.1:{free_port()}"
        return {"EIGENTENSOR_OPERATOR_CALLS": address}, f"http://{address}"

    def upload(self, program: bytes) -> bytes:
        """Gives the gateway a program; its root."""
        store = LocalStore(self.folder / "blobs")
        with closing(GatewayClient(self.network.gateway_url, store)) as gateway:
            gateway.upload(store.put(program))
        return program_root(program)

    def start_operators(
        self, count: int, settings: Settings | None = None, *, liars: int = 0, called: bytes | None = None
    ) -> list[Party]:
        """Operators that have joined and run, the last of them `liars`; the first one takes paid calls of the program
        `called`, if one is named. They join while their daemons load and test their device."""
        honest = [self.party(f"operator-{number}") for number in range(1, count - liars + 1)]
        lying = [self.party(f"liar-{number}") for number in range(1, liars + 1)]
        parties = [*honest, *lying]
        serving: Settings = {}
        if called is not None:
            serving, self.calls_url = self.calls(parties[0], called, NONE, CALL_PRICE)
        own = [{**(settings or {}), **(serving if party is parties[0] else {})} for party in parties]
        daemons = [
            self.start_operator(party, more, lies=party in lying) for party, more in zip(parties, own, strict=True)
        ]
        with ThreadPoolExecutor() as pool:
            for _ in pool.map(spending.carried(self.join), parties):
                pass
        for daemon in daemons:
            daemon.wait_ready()
        self.operators += parties
        return parties

    def _start(
        self, name: str, verb: list[str], environment: Mapping[str, str], ready: str = "", module: str = COMMAND
    ) -> Running:
        return self.processes.start(name, [sys.executable, "-m", module, *verb], environment, ready=ready)


@contextmanager
def devnet(
    operators: int = 0,
    settings: Settings | None = None,
    *,
    liars: int = 0,
    block_time: float | None = 1.0,
    rpc_port: int = 0,
    gateway_port: int = 0,
    path: Path | None = None,
    file: Path | None = None,
    first: int = FIRST_BLOCK,
    called: bytes | None = None,
) -> Iterator[Devnet]:
    """A chain with the contracts, an aggregator and operators, all at work, until the block ends; port 0 chooses a free
    one. `settings` are EIGENTENSOR_OPERATOR_* for all operators, of which the last `liars` lie about what they compute,
    and the first one takes paid calls of a program `called`, by its encoding.

    Once all is ready `block_time` seconds make a block, and nothing else does: who takes blocks for time is right.
    Without it each transaction makes one. The network file is written to `path`, by default where everybody finds the
    network `local`, and removed with everything else at the end. `file` describes the market, as those of
    contracts/networks do, and `first` is the chain's first block. Raises ConfigError if another network runs there, or
    where the extra `local` is not installed.
    """
    require("local")
    path = path or network_path("local")
    if (other := running(path)) is not None:
        raise ConfigError(
            f"a local network runs already at {other.rpc_url}", fix="Use it, or end it with Ctrl-C in its terminal."
        )
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="eigentensor-", ignore_cleanup_errors=True))
        )
        doing("the chain")
        anvil = stack.enter_context(start_anvil(rpc_port, block_time, first))
        url = f"http://127.0.0.1:{gateway_port or free_port()}"
        doing("its contracts, which are compiled at first")
        with anvil.hurried():
            network = Network(path.stem, anvil.rpc_url, url, deploy(anvil.rpc_url, file))
            network.save(path)
            stack.callback(path.unlink, missing_ok=True)
            processes = stack.enter_context(Processes(folder / "logs"))
            net = Devnet(anvil, network, path, processes, folder, block_time)
            doing("aggregator and operators")
            aggregator = net.start_aggregator()
            net.mint(str(anvil_account(CLIENT).address), CLIENT_TOKENS)
            if called is not None:
                aggregator.wait_ready()
            root = None if called is None else net.upload(called)
            net.start_operators(operators, settings, liars=liars, called=root)
            aggregator.wait_ready()
        yield net


OPERATORS = 2  # who executes is checked by the other
BLOCK_TIME = 0.5


@contextmanager
def local_network(screen: Screen, *, keep: bool = False) -> Iterator[bool]:
    """Starts the network `local` if it does not run, and says so; true if it did.

    It ends with the block; with `keep` it goes on after the block until Ctrl-C. Raises ProcessDied.
    """
    if running(network_path(DEFAULT)) is not None:
        yield False
        return
    with ended_by_signals(), ExitStack() as stack:
        with screen.work() as bar:
            bar(f"no local network runs: starting one, with its chain, contracts, aggregator and {OPERATORS} operators")
            net = stack.enter_context(devnet(OPERATORS, block_time=BLOCK_TIME))
        yield True
        if keep:
            screen.say("the local network goes on until Ctrl-C: other commands find it meanwhile")
            net.processes.wait(chain=net.anvil.process)
        screen.say("ending the local network; `eigentensor devnet` in another terminal keeps one for many tasks")
