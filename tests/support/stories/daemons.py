"""Operators as processes of a local network: how tests start them, give them work, and hurry the chain."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eigentensor import economics
from eigentensor.chain import Chain, to_wei
from eigentensor.program import Role
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_client.task_view import TaskView
from eigentensor_local.anvil import join
from eigentensor_local.devnet import Devnet, Party, devnet
from eigentensor_local.processes import Running
from support.generated.programs import Example, generate
from support.stories.clock import Clock

#: Seconds. Slow, because tests mine what they do not want to wait for.
BLOCK_TIME = 2.0
PATIENCE = 120.0  # seconds
#: Where in its log, which it shares with its predecessors, the output of a process begins.
begun: dict[int, int] = {}
ROLES = (Role.INPUT, Role.WEIGHT, Role.STATE)
#: As seldom checked as the market allows.
TERMS = Terms(max_price=to_wei("0.05"), ramp=0, exec=30, accept_within=100, check_rate=to_wei("0.05"))


@contextmanager
def network_of(path: Path) -> Iterator[Devnet]:
    """One on which transactions, tests and a slow clock make blocks."""
    with devnet(block_time=None, path=path) as net, Clock(net.anvil, BLOCK_TIME):
        yield net


def example_with_everything() -> Example:
    """A program with inputs, weights, states, variables, repeated."""
    return next(
        e
        for e in map(generate, range(1000))
        if e.repeat > 1 and e.variables and set(ROLES) <= {b.role for b in e.program.buffers}
    )


def work_of(example: Example) -> Work:
    inputs, weights, states = ({n: example.tensors[n] for n in example.program.named(role)} for role in ROLES)
    return Work(example.program, inputs, weights, states, example.variables, example.repeat)


def _variables(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {name if name.isupper() else prefix + name.upper(): value for name, value in settings.items()}


def start(net: Devnet, party: Party, *steps: str, module: str = "eigentensor_client", **settings: str) -> Running:
    """Starts the operator; it is ready when it logs one of these steps, or its readiness. Names in capitals are
    variables of its environment."""
    environment = net.environment(party.folder, {}) | {
        "EIGENTENSOR_OPERATOR_DATA_DIR": str(party.folder),
        "EIGENTENSOR_OPERATOR_KEYSTORE": str(party.folder / "signer.json"),
        "EIGENTENSOR_OPERATOR_PASSWORD_FILE": str(party.folder / "password"),
        "EIGENTENSOR_OPERATOR_ADDRESS": party.address,
        "EIGENTENSOR_OPERATOR_PORT": "0",
        "EIGENTENSOR_OPERATOR_BLOCK_SECONDS": str(BLOCK_TIME),
        "EIGENTENSOR_OPERATOR_STARTUP_SECONDS": "2",
        "EIGENTENSOR_OPERATOR_POLL_SECONDS": "0.1",
        "EIGENTENSOR_OPERATOR_LOG_FORMAT": "json",
    }
    environment |= _variables("EIGENTENSOR_OPERATOR_", settings)
    ready = "|".join(f'"event": "{step}"' for step in steps or ("ready",))
    command = [sys.executable, "-m", module, "operator", "run"]
    running = net.processes.start(party.name, command, environment, ready=ready)
    begun[running.pid] = running.log.stat().st_size if running.log.exists() else 0
    return running


def start_watcher(
    net: Devnet, party: Party, network: Path | None = None, *, tells: bool = False, **settings: str
) -> Running:
    """Starts a watcher that looks at everything, with the party's own account, or without one if it only `tells`; with
    another network file if given. Names in capitals are variables of its environment."""
    environment = net.environment(party.folder, {}) | {
        "EIGENTENSOR_WATCH_NETWORK": str(network or net.path),
        "EIGENTENSOR_WATCH_DATA": str(party.folder / "watch"),
        "EIGENTENSOR_WATCH_KEYSTORE": str(party.folder / "owner.json"),
        "EIGENTENSOR_WATCH_PASSWORD_FILE": str(party.folder / "password"),
        "EIGENTENSOR_WATCH_BLOCK_SECONDS": str(BLOCK_TIME),
        "EIGENTENSOR_WATCH_POLL": "0.1",
    }
    environment |= _variables("EIGENTENSOR_WATCH_", settings)
    if tells:
        del environment["EIGENTENSOR_WATCH_KEYSTORE"], environment["EIGENTENSOR_WATCH_PASSWORD_FILE"]
    command = [sys.executable, "-m", "eigentensor_client", "watch", "--json"]
    return net.processes.start(party.name, command, environment)


def party_of(net: Devnet, client: Chain, name: str) -> Party:
    """An operator whose signer has tokens: what batches hold is deposited out of them."""
    party = net.party(name)
    join(net.network, party.owner, signer=party.signer.address)
    client.token.mint(party.signer.address, to_wei("1"))
    return party


def url_of(running: Running) -> str:
    """Where an operator takes calls."""
    wait_for(running, "calls")
    urls = re.findall(r'"url": "(http[^"]*)"', running.log.read_text())
    assert urls, running.tail()
    return str(urls[-1])


def pass_window(net: Devnet, client: Client, task: TaskView) -> None:
    """Lets blocks pass until everybody may end the task, and those who should had the time to."""
    net.anvil.mine_past(client.chain.market.deadline_of(bytes.fromhex(task.uuid)) + 3)


def pass_draw(net: Devnet, client: Client, task: TaskView) -> None:
    """Waits for the commit and for whoever records the seed, and lets blocks pass until the executor may reveal.

    The time for answers is passed as well; `pass_seed` leaves it.
    """
    pass_seed(net, client, task)
    chain, uuid = client.chain, bytes.fromhex(task.uuid)
    if chain.market.is_drawn(task.order):
        window = economics.check_window(chain.deployment.parameters, task.order.exec)
        net.anvil.mine_past(chain.market.seed_block_of(uuid) + window)


def pass_seed(net: Devnet, client: Client, task: TaskView) -> None:
    """Waits for the commit, lets blocks pass to the seed block and beyond, waits until its seed is recorded."""
    chain, uuid = client.chain, bytes.fromhex(task.uuid)
    until(lambda: chain.market.seed_block_of(uuid) > 0)
    net.anvil.mine_past(chain.market.seed_block_of(uuid) + chain.deployment.parameters.confirmations)
    until(lambda: chain.market.is_drawn(task.order) is not None)


def wait_for(running: Running, step: str, times: int = 1) -> None:
    """Until its log says so, so often."""

    def count() -> int:
        text = running.log.read_bytes() if running.log.exists() else b""
        return text[begun[running.pid] :].count(f'"event": "{step}"'.encode())

    until(lambda: count() >= times or not running.running)
    assert running.running, running.tail()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)
