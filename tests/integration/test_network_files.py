"""The markets that the project's own network files describe: operators with default settings work in each of them."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import economics
from eigentensor.chain import to_wei
from eigentensor.economics import WAD, Parameters
from eigentensor.errors import ConfigError, TermsRefused
from eigentensor.merkle import operators_root
from eigentensor.program.cost import needs_of
from eigentensor.task import Closed, Convicted, Paid, Slashed, State
from eigentensor_client.client import Client
from eigentensor_client.orders import Roots, Terms, Work, check_terms, draft
from eigentensor_client.task_view import TaskView
from eigentensor_client.tasks import payable_from
from eigentensor_local.devnet import Devnet, devnet
from eigentensor_local.foundry import CONTRACTS
from eigentensor_operator.config import Settings
from eigentensor_operator.policy import Policy, refuse_needs, refuse_order
from support.programs.worked_examples import layer

NAMES = ("local", "sepolia", "hoodi", "mainnet")
GWEI = 10**9
SHORT = 20  # blocks
#: Seconds of a block on the stand-in of each network, and of the longest wait for the next thing.
SCALED, PATIENCE = {"sepolia": 6.0, "hoodi": 6.0, "mainnet": 2.0}, 400.0


def described(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((CONTRACTS / "networks" / f"{name}.json").read_text())
    return values


def parameters_of(name: str) -> Parameters:
    values = described(name)
    return Parameters.from_json(values["parameters"] | {n: gas * GWEI for n, gas in values.get("gas", {}).items()})


def policy_of(p: Parameters, seconds: float) -> Policy:
    """What an operator has that sets nothing but how long a block takes."""
    settings = Settings.load(block_seconds=seconds)
    return Policy(
        operator="0x" + "aa" * 20,
        parameters=p,
        domain=None,  # type: ignore[arg-type]  # nothing is signed
        startup_seconds=settings.startup_seconds,
        operations_per_second=settings.operations_per_second,
        bytes_per_second=settings.bytes_per_second,
        block_seconds=settings.block_seconds,
        reserve=settings.reserve_in(p),
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_order_without_a_wish_suits_an_operator_without_a_setting(name: str) -> None:
    p, terms, program = parameters_of(name), Terms(to_wei("0.05")), layer().program
    check_terms(p, terms)
    order = draft("0x" + "bb" * 20, 1, 100, Work(program, {}), Roots(b"\1" * 32), terms, p)
    policy = policy_of(p, described(name)["blockSeconds"] if name != "local" else 1)
    assert refuse_order(policy, order) is None
    if name != "local":  # where blocks take a second, starting takes five of them
        assert refuse_needs(policy, order, needs_of(program, 1)) is None


@pytest.mark.parametrize(
    ("name", "outage", "reserve"), [("local", 20, 3), ("sepolia", 3, 2), ("hoodi", 3, 2), ("mainnet", 1_800, 3)]
)
def test_what_windows_leave_to_operators(name: str, outage: int, reserve: int) -> None:
    p = parameters_of(name)
    assert (economics.outage(p), economics.reserve(p)) == (outage, reserve)
    delays = described(name)["delays"]
    assert economics.lifetime(p, p.max_exec) <= min(delays["deallocation"], delays["withdrawal"])


@pytest.mark.parametrize(("reserve", "most"), [(3, 3), (60, 60), (61, 60)])
def test_a_reserve_that_leaves_no_block_to_execute_is_refused(reserve: int, most: int) -> None:
    p = Parameters(**{**asdict(parameters_of("local")), "max_exec": most})
    with pytest.raises(ConfigError, match="kept for transactions") as refused:
        Settings.load(reserve=reserve).reserve_in(p)
    assert f"at most {most - 1}" in refused.value.fix
    assert Settings.load(reserve=most - 1).reserve_in(p) == most - 1


def test_a_market_in_which_nobody_can_execute_is_refused_by_both_sides() -> None:
    p = Parameters(**{**asdict(parameters_of("local")), "max_exec": 2})
    with pytest.raises(ConfigError, match="2 blocks"):
        Settings.load().reserve_in(p)
    with pytest.raises(TermsRefused, match="too few for any operator"):
        check_terms(p, Terms(1))
    with pytest.raises(TermsRefused, match="not between 3 and 60") as refused:
        check_terms(parameters_of("local"), Terms(1, exec=2))
    assert "--exec 3 to 60" in refused.value.fix


# ---- Walked from end to end ----


@dataclass
class Walk:
    """A market on a stand-in with the network's delays, three honest operators, one that lies."""

    net: Devnet
    client: Client

    def post(self, terms: Terms) -> TaskView:
        example = layer()
        tensors = {name: np.array(array) for name, array in example.tensors.items()}
        work = Work(example.program, {"x": tensors.pop("x")}, tensors)
        (task,) = self.client.post([work], terms)
        return task

    def until(self, task: TaskView, *kinds: type) -> TaskView:
        """Waits for events of a task; passes the time in which nobody has anything to do."""
        end = time.monotonic() + PATIENCE
        while not set(kinds) <= {type(event) for event in task.events}:
            assert time.monotonic() < end, [type(event).__name__ for event in task.events]
            self.pass_time(task)
            time.sleep(1)
            task = self.client.look(task)
        return task

    def pass_time(self, task: TaskView) -> None:
        p, chain = self.net.network.deployment.parameters, self.client.chain
        if task.state is State.COMMITTED and task.drawn is None:
            self.skip_to(task.life.seed_block)
        elif task.state is State.COMMITTED and task.drawn and task.answered:
            self.skip_to(task.life.check_by)
        elif task.state is State.COMMITTED and not task.drawn:
            self.skip_to(task.life.seed_block + p.confirmations)
        elif task.state is State.REVEALED and not task.games and task.agreed + task.differed >= task.answered:
            assert task.deadline is not None
            self.skip_to(task.deadline)
        elif task.state is State.CONVICTED:
            answers = chain.market.answers_by(bytes.fromhex(task.uuid))
            self.skip_to(answers if task.block < answers else payable_from(chain, task.life) or 0)

    def skip_to(self, block: int) -> None:
        """Leaves the last blocks, and what is short, to the clock: the daemons work in them."""
        if block - self.client.chain.node.block_number() > SHORT:
            self.net.anvil.mine_past(block - SHORT)


@pytest.fixture
def walk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Walk]:
    name = request.param
    for word in ("STATE", "DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{word}_HOME", str(tmp_path / word.lower()))
    monkeypatch.setenv("GAS_PRICE", str(GWEI))
    there = described(name)
    here = {key: value for key, value in there.items() if key not in ("core", "strategy", "token")} | {"chainId": 31337}
    (file := CONTRACTS / "deployments" / f"walk-{name}.json").parent.mkdir(exist_ok=True)
    here["delays"] |= {"slashResolution": there["delays"]["slashResolution"] // 100}  # nothing happens in it
    file.write_text(json.dumps(here))
    try:
        first = 2_000 + there["delays"]["withdrawal"]
        path = tmp_path / f"{name}.json"
        with (
            devnet(3, block_time=SCALED[name], path=path, file=file, first=first) as net,
            Client(net.network) as client,
        ):
            yield Walk(net, client)
    finally:
        file.unlink()


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("walk", SCALED, indirect=True)
def test_a_task_becomes_final_and_a_lie_is_convicted_with_default_settings(walk: Walk) -> None:
    task = walk.post(Terms(to_wei("0.05"), check_rate=walk.net.network.deployment.parameters.check_floor))
    final = walk.until(task, Closed)
    assert final.state is State.FINAL
    liar = walk.net.party("liar")
    walk.net.join(liar)
    walk.net.start_operator(liar, lies=True).wait_ready()
    only = operators_root([bytes.fromhex(liar.address[2:])])
    lie = walk.post(Terms(to_wei("0.05"), check_rate=WAD, operators=only))
    convicted = walk.until(lie, Convicted, Slashed, Paid)
    assert (convicted.state, convicted.executor) == (State.CONVICTED, liar.address)
