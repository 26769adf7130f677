"""Sessions with operators as processes: one is killed, one lies, the session goes on from the states at the gateway."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, nn

from eigentensor import reference
from eigentensor.capture import GraphProgram, capture
from eigentensor.chain import anvil_account, to_wei
from eigentensor.economics import WAD
from eigentensor.errors import SessionRewound
from eigentensor.merkle import operators_root
from eigentensor.runtime import execute
from eigentensor.store import LocalStore, load_safetensors, save_safetensors
from eigentensor.task import State
from eigentensor_client.accounts import CLIENT
from eigentensor_client.cli import main
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_client.session import Session
from eigentensor_local.devnet import Devnet, Party
from support.programs.captured import Block

pytestmark = pytest.mark.slow

TERMS = Terms(to_wei("0.05"), check_rate=WAD // 20, exec=60, accept_within=100)
EXAMPLES = Path(__file__).parents[2] / "client" / "examples"
STEPS = 8
LONG = 120.0  # seconds after which a wait is a failure of the test


@cache
def decoder() -> GraphProgram:
    Tensor.manual_seed(6)
    block = Block(length=STEPS)
    for tensor in nn.state.get_parameters(block):
        tensor.realize()
    return capture(block, row(0), variables={"position": (0, STEPS - 1, 1)}, max_repeat=STEPS)


def row(step: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.random.default_rng(step).standard_normal((1, 1, 8), dtype=np.float32)}


@cache
def locally() -> list[Any]:
    """The results of all steps, one after the other."""
    graph, results = decoder(), []
    states = dict(graph.states)
    for step in range(STEPS):
        tensors = {**row(step), **graph.weights, **states}
        results.append(reference.execute(graph.program, tensors, {"position": step}))
        states = results[-1].states
    return results


def bits(tensors: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in tensors.items()}


def only(party: Party, **terms: Any) -> Terms:
    return replace(TERMS, operators=operators_root([bytes.fromhex(party.address[2:])]), **terms)


def go_on(session: Session, terms: Terms) -> None:
    """The next step, which must have the bits of the local run."""
    step = session.step
    result = session.run(row(step), variables={"position": step}, terms=terms, timeout=LONG)
    assert bits(result.outputs) == bits(locally()[step].outputs)


@pytest.fixture
def machine(net: Devnet, tmp_path: Path) -> Callable[[str], Client]:
    """The paying account on a machine of this name, which has a cache of its own."""
    return lambda name: Client(net.network, anvil_account(CLIENT), LocalStore(tmp_path / name))


def test_another_operator_goes_on_where_one_was_killed(
    net: Devnet, operators: list[Party], machine: Callable[[str], Client], tmp_path: Path
) -> None:
    first, second, _ = operators
    graph, path = decoder(), tmp_path / "chat.session"
    with machine("a") as client:
        parts = (graph.program, dict(graph.weights), dict(graph.states))
        with client.session(*parts, only(first), path) as session:
            for _ in range(4):
                go_on(session, only(first))
    net.processes[first.name].kill()
    try:
        with machine("b") as client, client.resume(path) as session:
            for _ in range(4):
                go_on(session, only(second))
            assert bits(session.states()) == bits(locally()[-1].states)
            executors = [client.task(session.history.task(s.order)).executor for s in session.history.steps]
            assert executors == [first.address] * 4 + [second.address] * 4
    finally:
        net.start_operator(first).wait_ready()


def test_a_lie_in_step_5_of_8_is_convicted_by_a_verifier_and_done_again(
    net: Devnet, operators: list[Party], machine: Callable[[str], Client], tmp_path: Path
) -> None:
    graph, honest = decoder(), only(operators[0])
    liar = net.party("session-liar")
    net.join(liar)
    net.start_operator(liar, lies=True).wait_ready()
    with machine("a") as client:
        parts = (graph.program, dict(graph.weights), dict(graph.states))
        with client.session(*parts, honest, tmp_path / "chat.session") as session:
            for _ in range(5):
                go_on(session, honest)
            lied = only(liar, check_rate=WAD, exec=40)
            wrong = session.run(row(5), variables={"position": 5}, terms=lied, timeout=LONG)
            assert bits(wrong.outputs) != bits(locally()[5].outputs)
            with pytest.raises(SessionRewound, match="step 5 was wrong"):
                while True:
                    session.wait("final", timeout=LONG)
            net.processes[liar.name].kill()
            assert client.look(wrong.task).state is State.CONVICTED
            assert session.step == 5
            while session.step < STEPS:
                go_on(session, honest)
            assert bits(session.states()) == bits(locally()[-1].states)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Any]]:
    """A command that must end with this code: its object."""

    def run(*words: str, code: int = 0) -> Any:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == code, err
        return json.loads(out)

    yield run


def test_a_session_by_commands(
    net: Devnet, operators: list[Party], call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = decoder()
    Path("x.program").write_bytes(graph.to_bytes())
    save_safetensors(Path("w.safetensors"), dict(graph.weights))
    save_safetensors(Path("s.safetensors"), dict(graph.states))
    for step in range(3):
        np.save(f"x{step}.npy", row(step)["x"])
    parts = ("-w", "w.safetensors", "--states", "s.safetensors")
    started = call("session", "start", "a.session", "x.program", *parts, "--max-price", "0.05", "--exec", "60")
    assert (started["schema"], started["steps"]) == ("eigentensor.session/1", [])
    again = call("session", "start", "a.session", "x.program", *parts, "--max-price", "0.05", code=3)
    assert "exists" in again["what"]

    def run(step: int, *more: str) -> Any:
        return call("session", "run", "a.session", "-i", f"x=@x{step}.npy", "-v", f"position={step}", *more)

    first = run(0, "-o", "y.safetensors")
    assert (first["schema"], first["step"]) == ("eigentensor.step/1", 0)
    assert bits(load_safetensors(Path("y.safetensors"))) == bits(locally()[0].outputs)
    many = run(1, "--repeat", "2", "--wait", "checked")
    assert many["task"]["checked"] in ("checked(1)", "checked(2)")  # another one answers where the first is slow
    shown = call("session", "show", "a.session")
    assert [step["order"]["repeat"] for step in shown["steps"]] == [1, 2]
    assert shown["steps"][0]["states"] == first["states"] == shown["steps"][1]["order"]["states"].removeprefix("0x")
    call("session", "states", "a.session", "-o", "now.safetensors")
    tensors = {**row(1), **graph.weights, **locally()[0].states}
    expected = reference.execute(graph.program, tensors, {"position": 1}, 2)
    assert bits(load_safetensors(Path("now.safetensors"))) == bits(expected.states)

    back = call("session", "rewind", "a.session", "1")
    assert (len(back["steps"]), [void["why"] for void in back["void"]]) == (1, ["rewound"])
    other = run(2, "--max-price", "0.06")
    assert other["task"]["order"]["max_price"] == str(to_wei("0.06"))
    net.anvil.mine_past(other["task"]["deadline"])
    done = call("session", "wait", "a.session", "--timeout", "60", "-o", "last.safetensors")
    assert [step["final"] for step in done["steps"]] == [True, True]
    assert Path("last.safetensors").exists()
    assert "there is no step 7" in call("session", "rewind", "a.session", "7", code=2)["what"]
    assert "no session" in call("session", "show", "b.session", code=4)["what"]


def test_the_example_trains_in_paid_tasks_and_goes_on_when_it_is_started_again(
    client: Client,
    operators: list[Party],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    example = run_path(str(EXAMPLES / "training.py"))
    file, steps = tmp_path / "training.session", 3
    graph, (training, _) = example["program"](), example["load"]()
    states, losses = dict(graph.states), []
    for number in range(2):
        tensors = {**example["batch"](training, number), **graph.weights, **states}
        results = execute(graph.program, tensors, {}, steps)
        states = results.states
        losses.append((str(number), f"{results.outputs['loss'].item():.3f}"))
    example["train"](client, file, 1, steps)
    example["train"](client, file, 2, steps)
    printed = re.findall(r"^ *(\d+)  loss (\S+)", capsys.readouterr().out, re.MULTILINE)
    assert printed == losses
    with client.resume(file) as session:
        assert bits(session.states()) == bits(states)
