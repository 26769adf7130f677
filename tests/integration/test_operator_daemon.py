"""An operator's process against a real chain and a real gateway: killed, stopped, drained, reorganised."""

import fcntl
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import httpx
import numpy as np
import pytest
from eth_utils.address import to_checksum_address
from typer.testing import CliRunner

from eigentensor import economics, reference
from eigentensor.cache import default_folder
from eigentensor.chain import Chain, anvil_account, save_account, to_wei
from eigentensor.errors import InsufficientFunds
from eigentensor.graph import GraphBuilder
from eigentensor.program import Program
from eigentensor.store import LocalStore
from eigentensor.task import Committed, State
from eigentensor_client.client import Client
from eigentensor_client.orders import Work
from eigentensor_client.screen import short
from eigentensor_client.verbs.show import Show
from eigentensor_local.anvil import join
from eigentensor_local.contracts import DEPLOYER
from eigentensor_local.devnet import Devnet, Party
from eigentensor_local.processes import Running
from eigentensor_operator.cli import app
from eigentensor_operator.config import Settings
from support.generated.programs import Example
from support.hostile.system import Fault, System, compiled
from support.programs.compiling import hostile_program
from support.stories.core import core
from support.stories.daemons import (
    TERMS,
    begun,
    example_with_everything,
    network_of,
    pass_draw,
    pass_seed,
    pass_window,
    start,
    until,
    wait_for,
    work_of,
)
from support.web3 import web3_of
from support.web3signer import web3signer

Run = Callable[..., str]
MOST = (1 << 96) - 1, (1 << 96) - 1  # caps of a signer
#: A machine that expects everything to be done at once, on a chain that is as fast: an execution has 3 milliseconds.
HURRIED = {"block_seconds": "0.0001", "startup_seconds": "0"}
HURRIED |= {"operations_per_second": "1e15", "bytes_per_second": "1e15"}
STEPS = ("inspect", "fetch", "prepare", "accepted", "execute", "committed", "revealed", "upload", "final")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    """With an operator that never runs: an acceptance needs the seats of others."""
    with network_of(tmp_path_factory.mktemp("network") / "operator.json") as net:
        join(net.network, net.party("other").owner)
        yield net


@pytest.fixture(scope="module")
def party(net: Devnet) -> Party:
    party = net.party("operator")
    net.join(party)
    return party


@pytest.fixture
def client(net: Devnet, tmp_path: Path) -> Iterator[Client]:
    with Client(net.network, anvil_account(2), LocalStore(tmp_path)) as client:
        client.chain.token.mint(client.address, to_wei("1"))
        yield client


@pytest.fixture(autouse=True)
def one_operator_at_a_time(net: Devnet) -> Iterator[None]:
    yield
    for process in net.processes:
        if process.name == "operator":
            process.stop()


@pytest.fixture
def example() -> Example:
    return example_with_everything()


@pytest.fixture
def run(net: Devnet, party: Party, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a verb of `eigentensor operator` in this process; what it printed as data."""
    for name, value in {
        "EIGENTENSOR_NETWORK": net.path,
        "EIGENTENSOR_OPERATOR_DATA_DIR": party.folder,
        "EIGENTENSOR_OPERATOR_PASSWORD_FILE": party.folder / "password",
        "EIGENTENSOR_OPERATOR_ADDRESS": party.address,
    }.items():
        monkeypatch.setenv(name, str(value))

    def invoke(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return invoke


def large_work() -> Work:
    """More than a million evaluations."""
    graph = GraphBuilder()
    a = graph.input("a", (64, 64))
    return Work(graph.compile(a @ a @ a @ a @ a).program, {"a": np.ones((64, 64), np.float32)})


def node_of(running: Running, step: str = "ready") -> httpx.Client:
    """The node API of a daemon that is ready, or got so far."""
    *_, ready = [line for line in running.log.read_text().splitlines() if f'"event": "{step}"' in line]
    return httpx.Client(base_url=f"http://127.0.0.1:{json.loads(ready)['node_port']}")


def sent_by(net: Devnet, party: Party) -> int:
    return web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(party.signer.address))


@pytest.mark.parametrize("kills", [("execute",), pytest.param(STEPS[:-2], marks=pytest.mark.slow)])
def test_an_operator_killed_at_any_step_is_paid_for_one_right_result(
    net: Devnet, party: Party, client: Client, example: Example, kills: tuple[str, ...]
) -> None:
    before, nonce = client.chain.market.balance_of(party.address).balance, sent_by(net, party)
    (task,) = client.post([work_of(example)], TERMS)
    for step in kills:
        if step == "revealed":
            pass_draw(net, client, task)
        running = start(net, party, *STEPS[STEPS.index(step) :])
        running.wait_ready()
        running.kill()
    running = start(net, party, "upload", "final")
    pass_draw(net, client, task)
    running.wait_ready()

    result = client.deliver(client.look(task))
    right = reference.execute(example.program, example.tensors, example.variables, example.repeat)
    assert {n: a.tobytes() for n, a in result.outputs.items()} == {n: a.tobytes() for n, a in right.outputs.items()}
    assert {n: a.tobytes() for n, a in result.states.items()} == {n: a.tobytes() for n, a in right.states.items()}
    commits = [e for e in client.chain.history.events(net.network.deployment.block) if isinstance(e, Committed)]
    assert len([e for e in commits if e.task.hex() == task.uuid]) == 1
    assert sent_by(net, party) - nonce in (3, 4)  # accept, commit, reveal, and the seed if nobody was faster

    pass_window(net, client, task)
    final = client.wait(task, "final", timeout=60)
    assert final.state is State.FINAL
    account = client.chain.market.balance_of(party.address)
    assert (account.balance - before, client.chain.market.held_of(party.address)) == (TERMS.max_price, 0)


def test_an_operator_whose_disk_is_full_for_a_while_goes_on_where_it_was(
    net: Devnet, party: Party, client: Client, example: Example, tmp_path: Path
) -> None:
    system = System(tmp_path / "system", compiled(tmp_path))
    (task,) = client.post([work_of(example)], TERMS)
    running = start(net, party, "accepted", **system.environment)
    running.wait_ready()
    system.begin(Fault.FULL, running, Random(0))
    until(lambda: len(re.findall("No space left|disk is full", running.tail())) >= 2)
    system.end()
    wait_for(running, "committed")
    pass_draw(net, client, task)
    wait_for(running, "revealed")


@pytest.mark.slow
def test_a_key_is_elsewhere_and_another_one_takes_its_place_while_a_task_runs(
    net: Devnet, client: Client, example: Example
) -> None:
    """The signer refuses for a while in the middle; then its successor, a keystore, ends what it began."""
    party, successor = net.party("elsewhere"), anvil_account(8)
    net.join(party)
    save_account(successor, party.folder / "successor.json", (party.folder / "password").read_text(), iterations=1)
    with web3signer([party.signer.secret]) as signing:
        (task,) = client.post([work_of(example)], TERMS)
        signing.trouble(client.chain.node.market.function("commit").selector.hex())
        running = start(net, party, "committed", keystore=f"{signing.url}/{party.signer.address}")
        wait_for(running, "commit failed", 2)
        signing.trouble("none")
        running.wait_ready()
        signing.trouble("busy")  # for ever
        with Chain(net.network, party.owner, party.folder / "owner.sqlite") as owner:
            owner.stake.set_signer(successor.address, *MOST)
        running.stop()
    running = start(net, party, "upload", "final", keystore=str(party.folder / "successor.json"))
    pass_draw(net, client, task)
    running.wait_ready()
    assert client.look(task).state is State.REVEALED
    pass_window(net, client, task)
    assert client.wait(task, "final", timeout=60).state is State.FINAL


@contextmanager
def an_endless_self_test() -> Iterator[None]:
    """Operators of this machine take the test one after the other: until the block ends, it is somebody else's turn."""
    folder = default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "selftest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.slow
def test_an_operator_killed_before_its_reveal_reveals_before_it_tests_its_device(
    net: Devnet, party: Party, client: Client, example: Example
) -> None:
    (task,) = client.post([work_of(example)], TERMS)
    running = start(net, party, "committed")
    running.wait_ready()
    running.kill()
    pass_seed(net, client, task)
    with an_endless_self_test():
        running = start(net, party, "upload", "final")
        pass_draw(net, client, task)
        running.wait_ready()
        assert client.look(task).state is State.REVEALED
        log = running.log.read_bytes()[begun[running.pid] :]
        assert b'"event": "started"' in log and b'"event": "ready"' not in log
        with node_of(running, "started") as node:
            assert node.get("/eigen/node/services/device-0/health").status_code == 206
            assert 'et_determinism_selftest_ok{avs_name="eigentensor"} 0.0' in node.get("/metrics").text
    wait_for(running, "ready")
    pass_window(net, client, task)
    client.wait(task, "final", timeout=60)


@pytest.mark.slow
def test_an_operator_whose_device_is_gone_reveals_what_it_promised_and_ends_when_nothing_is_at_stake(
    net: Devnet, party: Party, client: Client, example: Example
) -> None:
    (task,) = client.post([work_of(example)], TERMS)
    running = start(net, party, "committed")
    running.wait_ready()
    running.kill()
    pass_seed(net, client, task)
    running = start(net, party, "upload", device="CUDA")
    pass_draw(net, client, task)
    running.wait_ready()
    assert client.look(task).state is State.REVEALED
    wait_for(running, "device is faulty")
    pass_window(net, client, task)
    assert running.wait(timeout=60) == 7
    assert client.look(task).state is State.FINAL
    assert start(net, party, device="CUDA").wait(timeout=60) == 7, "nothing is at stake"


def test_an_acceptance_thrown_out_by_a_reorganisation_is_sent_again(
    net: Devnet, party: Party, client: Client, example: Example
) -> None:
    (task,) = client.post([work_of(example)], TERMS)
    running = start(net, party, "accepted")
    running.wait_ready()
    accepted = client.chain.market.task_at(bytes.fromhex(task.uuid)).accepted_at
    while (head := net.anvil.rpc("eth_blockNumber")) >= accepted:  # blocks may have come after it, and come meanwhile
        net.anvil.rollback(head - accepted + 1)
    net.anvil.mine(2)  # the other fork grew without the acceptance
    pass_draw(net, client, task)
    result = client.wait(task, "result", timeout=60)
    assert result.executor == party.address
    assert '"event": "reorganisation"' in running.log.read_text()
    pass_window(net, client, task)
    client.wait(task, "final", timeout=60)


@pytest.mark.slow
def test_an_operator_that_cannot_finish_says_so_and_ends_the_task_itself(
    net: Devnet, party: Party, client: Client, example: Example
) -> None:
    before = client.chain.market.balance_of(party.address).balance
    (task,) = client.post([work_of(example)], TERMS)
    running = start(net, party, "dropped", trial="0", **HURRIED)
    running.wait_ready()
    assert '"reason": "execution"' in running.tail()
    running.stop()

    running = start(net, party, "failed")
    pass_window(net, client, task)
    running.wait_ready()
    running.stop()
    assert client.look(task).state is State.FAILED
    account = client.chain.market.balance_of(party.address)
    penalty = economics.penalty(net.network.deployment.parameters, TERMS.max_price)
    assert (before - account.balance, client.chain.market.held_of(party.address)) == (penalty, 0)


def test_a_program_that_cannot_be_executed_is_declined_before_anything_is_promised(
    net: Devnet, party: Party, client: Client, example: Example
) -> None:
    before = client.chain.market.balance_of(party.address)
    (task,) = client.post([work_of(example)], TERMS)
    running = start(net, party, "decline", **HURRIED)
    running.wait_ready()
    entry = next(o for o in client.explain(task)["operators"] if o["operator"] == party.address)
    assert (entry["reason"], entry["needed"]) == ("trial", "a program that can be executed")
    assert "too long" in entry["offered"] and client.look(task).state is State.OPEN
    assert client.chain.market.balance_of(party.address) == before
    client.cancel(task)


def test_a_running_operator_tells_its_health_and_ends_at_once_by_sigterm(net: Devnet, party: Party) -> None:
    running = start(net, party)
    running.wait_ready()
    with node_of(running) as node:
        assert node.get("/eigen/node/health").status_code in (200, 206)
        assert 'et_determinism_selftest_ok{avs_name="eigentensor"} 1.0' in node.get("/metrics").text
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait(timeout=60) == 0
    assert '"event": "ended"' in running.tail()
    assert (party.folder / "operator.sqlite").stat().st_mode & 0o077 == 0


def test_a_draining_operator_says_so_to_whoever_asks_why(
    net: Devnet, party: Party, client: Client, example: Example, run: Run
) -> None:
    assert json.loads(run("drain", "--wait", "--json")) == {
        "schema": "eigentensor.operator-drain/1", "draining": True, "unfinished": [],
    }  # fmt: skip
    running = start(net, party, "decline")
    (task,) = client.post([work_of(example)], TERMS)
    running.wait_ready()
    entry = next(o for o in client.explain(task)["operators"] if o["operator"] == party.address)
    assert (entry["reason"], entry["needed"]) == ("draining", "an operator that accepts")
    assert json.loads(run("status", "--json"))["draining"] is True
    running.stop()
    assert json.loads(run("drain", "--undo", "--json"))["draining"] is False
    client.cancel(task)


def test_orders_too_cheap_too_large_and_too_short_are_told_what_would_help(
    net: Devnet, party: Party, client: Client, example: Example
) -> None:
    work = work_of(example)
    terms = replace(TERMS, max_price=to_wei("0.0001")), TERMS, replace(TERMS, exec=3)
    tasks = [client.post([one], asked)[0] for one, asked in zip((work, large_work(), work), terms, strict=True)]
    running = start(net, party, "decline", max_operations=str(10**6))
    running.wait_ready()
    wait_for(running, "decline", 3)
    helps = []
    for task in tasks:
        explanation = client.explain(task)
        explanation["operators"] = [o for o in explanation["operators"] if o["operator"] == party.address]
        explained = Show(net.network).explained(task, explanation)
        helps += [o["helps"] for o in explained["operators"]]
        assert explained["helps"] == [f"{helps[-1]} ({short(party.address)})"]
    assert helps[0] is not None
    price = re.fullmatch(r"would accept at a price of (0\.000\d+) TETH: a higher --max-price", helps[0])
    assert price is not None and float(price[1]) > 0.0002
    assert helps[1:] == ["a smaller task: at most 1000000 operations", "--exec 4 or more"]
    for task in tasks:
        client.cancel(task)


def test_a_paused_core_raises_the_alarm_and_is_the_published_reason(
    net: Devnet, party: Party, client: Client, example: Example, run: Run, tmp_path: Path
) -> None:
    with Chain(net.network, anvil_account(DEPLOYER), tmp_path / "pauser.sqlite") as pauser:
        core(pauser, "allocation_manager", "pause", 2)
        running = start(net, party, "decline")
        (task,) = client.post([work_of(example)], TERMS)
        running.wait_ready()
        entry = next(o for o in client.explain(task)["operators"] if o["operator"] == party.address)
        assert (entry["reason"], entry["offered"]) == ("core", "slashing is paused")
        (alarm,) = json.loads(run("status", "--json"))["alarms"]
        assert alarm["alarm"] == "paused" and alarm["fix"]
        assert f"alarm           paused: {alarm['what']}" in run("status")
        with node_of(running) as node:
            assert node.get("/eigen/node/services/stake/health").status_code == 503
            assert node.get("/eigen/node/health").status_code == 206
            stake = next(s for s in node.get("/eigen/node/services").json()["services"] if s["id"] == "stake")
            assert stake["description"] == alarm["what"]
        assert '"event": "stake alarm"' in running.log.read_text() and '"alarm": "paused"' in running.log.read_text()
        core(pauser, "allocation_manager", "unpause", 0)
    client.cancel(task)


def test_going_up_again_does_nothing(net: Devnet, party: Party, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGENTENSOR_OPERATOR_KEYSTORE", str(party.folder / "owner.json"))
    count = web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(party.owner.address))
    amounts = ("--signer", party.signer.address, "--stake", "10", "--collateral", "10")
    plan = json.loads(run("up", *amounts, "--dry-run", "--json"))
    assert plan["schema"] == "eigentensor.operator-plan/2" and plan["complete"]
    assert [step["status"] for step in plan["steps"]] == ["done"] * 8
    again = json.loads(run("up", *amounts, "--min-price", "0.02", "--json"))
    assert again["complete"] and (party.folder / "operator.toml").read_text() == 'min_price = "0.02"\n'
    assert web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(party.owner.address)) == count
    (party.folder / "operator.toml").unlink()


def test_going_up_with_too_little_says_how_much_is_missing_and_spends_nothing(
    net: Devnet, party: Party, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EIGENTENSOR_OPERATOR_KEYSTORE", str(party.folder / "owner.json"))
    count = web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(party.owner.address))
    with pytest.raises(InsufficientFunds, match="stake and collateral need 19"):
        run("up", "--signer", party.signer.address, "--stake", "1000", "--collateral", "1010")
    assert web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(party.owner.address)) == count


def test_a_cold_owner_gets_its_messages_written_down(net: Devnet, party: Party, run: Run, tmp_path: Path) -> None:
    safe = tmp_path / "safe.json"
    owner = ("--owner", party.address, "--safe", str(safe), "--json")
    plan = json.loads(run("leave", *owner))
    assert {step["step"]: step["status"] for step in plan["steps"]} == {
        "operator set": "to do", "tasks": "done", "allocation": "to do", "balance": "to do", "signer": "to do",
    }  # fmt: skip
    calls = [call for step in plan["steps"] for call in step["calls"]]
    batch = json.loads(safe.read_text())
    assert batch["chainId"] == "31337"
    assert [(t["to"], t["data"]) for t in batch["transactions"]] == [(c["to"], c["data"]) for c in calls]


def test_status_is_one_versioned_object(party: Party, run: Run) -> None:
    status = json.loads(run("status", "--json"))
    assert status["schema"] == "eigentensor.operator/1"
    assert (status["operator"], status["signer"]) == (party.address, party.signer.address)
    assert status["member"] is True and status["cap"] == str(to_wei("10"))


@pytest.mark.slow
def test_bench_measures_this_machine_and_keeps_what_run_reads(net: Devnet, party: Party, run: Run) -> None:
    report = json.loads(run("bench", "--write", "--price-per-hour", "0.01", "--json"))
    assert report["schema"] == "eigentensor.operator-bench/1" and report["written"] is True
    assert report["gateway_bytes_per_second"] > 0 and report["startup_seconds"] > 0
    for row in report["programs"]:
        costs = sum(map(int, row["costs"].values()))
        assert row["operations_per_second"] > 0 and costs < int(row["price"]) < 2 * costs
    settings = Settings.load(data_dir=party.folder)
    assert settings.price_per_hour == "0.01"
    assert 0 < settings.operations_per_second <= report["operations_per_second"]
    (party.folder / "operator.toml").unlink()


def test_without_bubblewrap_an_operator_does_not_start(net: Devnet, party: Party, tmp_path: Path) -> None:
    environment = net.environment(party.folder, {}) | {
        "PATH": str(tmp_path),
        "EIGENTENSOR_OPERATOR_KEYSTORE": str(party.folder / "signer.json"),
        "EIGENTENSOR_OPERATOR_PASSWORD_FILE": str(party.folder / "password"),
        "EIGENTENSOR_OPERATOR_DATA_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "eigentensor_client", "operator", "run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 7
    assert "bubblewrap" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_normal_order_is_accepted_while_programs_that_take_minutes_are_compiled(
    net: Devnet, party: Party, client: Client, example: Example, run: Run
) -> None:
    """The last of its network: what it accepted stays unfinished."""
    run("drain", "--undo", "--json")  # `leave` began to
    hostile = [Work(p, {"x": np.ones(p.buffers[0].shape, np.float16)}) for p in (endless() for _ in range(3))]
    slow = client.post(hostile, replace(TERMS, accept_within=2000))
    running = start(net, party, "inspect")
    running.wait_ready()
    wait_for(running, "inspect", 3)
    (task,) = client.post([work_of(example)], replace(TERMS, accept_within=30))
    until(lambda: client.look(task).state is not State.OPEN)
    assert client.look(task).executor == party.address
    assert [client.look(other).state for other in slow] == [State.OPEN] * 3
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait(timeout=60) == 0, "it does not wait for a compiler"
    for other in slow:
        client.cancel(other)


def endless() -> Program:
    """What a compiler works at for minutes, and never saw before."""
    return hostile_program(8, 200, seed=secrets.randbits(64))
