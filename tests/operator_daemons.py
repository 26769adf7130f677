"""Operators as processes of a local network: how tests start them, give them work, and hurry the chain."""

import sys
import time

from eigentensor.chain import to_wei
from eigentensor.program import Role
from eigentensor.testing.programs import Example, generate
from eigentensor_client.client import Client
from eigentensor_client.devnet import Devnet, Party
from eigentensor_client.orders import Terms, Work
from eigentensor_client.processes import Running
from eigentensor_client.results import TaskView

BLOCK_TIME = 0.5
PATIENCE = 90.0  # seconds
ROLES = (Role.INPUT, Role.WEIGHT, Role.STATE)
#: As seldom checked as the market allows.
TERMS = Terms(max_price=to_wei("0.05"), exec=30, accept_within=100, check_rate=to_wei("0.05"))


def example_with_everything() -> Example:
    """A program with inputs, weights, states, variables, repeated."""
    return next(
        e
        for e in map(generate, range(1000))
        if e.repeat > 1 and e.variables and set(ROLES) <= {b.role for b in e.program.buffers}
    )


def work_of(example: Example) -> Work:
    parts = [{n: example.tensors[n] for n in example.program.named(role)} for role in ROLES]
    return Work(example.program, *parts, example.variables, example.repeat)


def start(net: Devnet, party: Party, *steps: str, module: str = "eigentensor_client", **settings: str) -> Running:
    """Starts the operator; it counts as ready when it logs one of these steps, or its readiness."""
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
    environment |= {f"EIGENTENSOR_OPERATOR_{name.upper()}": value for name, value in settings.items()}
    ready = "|".join(f'"event": "{step}"' for step in steps or ("ready",))
    return net.processes.start(party.name, [sys.executable, "-m", module, "operator", "run"], environment, ready=ready)


def pass_window(net: Devnet, client: Client, task: TaskView) -> None:
    """Lets blocks pass until everybody may end the task, and those who should had the time to."""
    net.anvil.mine_past(client.chain.deadline_of(bytes.fromhex(task.uuid)) + 3)


def wait_for(running: Running, step: str, times: int = 1) -> None:
    """Until its log says so, so often."""
    end = time.monotonic() + PATIENCE
    while running.log.read_text().count(f'"event": "{step}"') < times:
        assert running.running and time.monotonic() < end, running.tail()
        time.sleep(0.05)
