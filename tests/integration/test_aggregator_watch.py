"""A lying executor against a watcher alone: nobody else looks, and it is convicted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from eigentensor import economics, merkle, reference
from eigentensor.chain import Chain, Network, Opening, anvil_account
from eigentensor.dispute import refuse
from eigentensor.errors import ExecutionError
from eigentensor.player import Player
from eigentensor.program import DType, Program, Role, encode
from eigentensor.program.binding import Results
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.reference import Values
from eigentensor.runtime.cpu import toolchain
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor.store.parts import encode_variables
from eigentensor.task import Cause, Order, State, commitment, order_uuid
from eigentensor.tracing import Execute, retrace
from eigentensor_aggregator.config import Settings, Watch, WatchSettings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.watch.service import alone
from eigentensor_local.anvil import Anvil, pass_seed
from support.generated.programs import Example, generate

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]
Serve = Callable[[Settings], tuple[str, Daemon]]
ROLES = {Role.INPUT: "inputs", Role.WEIGHT: "weights", Role.STATE: "states"}
SALT = b"\3" * 32


def flipping(call: int) -> Execute:
    """Executes, but says that the first bit of what one call wrote was another, in its account and in the results."""

    def execute(
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        observe: Callable[[int, Values], None] | None = None,
    ) -> Results:
        def lie(number: int, written: Values) -> None:
            if observe is not None:
                observe(number, flipped(written) if number == call else written)

        results = reference.execute(program, tensors, variables, repeat, observe=lie)
        wrong = {r.name for r in program.results if r.buffer == len(program.buffers) + call}
        outputs = {n: flipped(a).reshape(a.shape) if n in wrong else a for n, a in results.outputs.items()}
        return Results(outputs, results.states)

    return execute


def flipped(values: Values) -> Values:
    changed = values.copy().reshape(-1)
    changed.view("u1")[0] ^= 1
    return changed


@dataclass(frozen=True)
class Case:
    """A program whose result can be lied about, and the call whose output is."""

    example: Example
    call: int

    def root(self, execute: Execute) -> bytes:
        e = self.example
        return retrace(e.program, e.tensors, e.variables, e.repeat, execute=execute).outputs


@pytest.fixture(scope="module")
def case() -> Case:
    """All roles, and an output of integers, of which every pattern is a value."""
    for example in map(generate, range(2000)):
        program, first = example.program, len(example.program.buffers)
        lies = [
            r.buffer - first
            for r in program.outputs.values()
            if program.parameter(r.buffer).dtype is DType.INT32 and program.parameter(r.buffer).elements
        ]
        complete = example.repeat == 1 and program.named(Role.WEIGHT) and example.variables
        if complete and lies and refuse(program, 1) is None and not program.new_states:
            return Case(example, lies[0])
    raise AssertionError("the generator makes no such program any more")


@pytest.fixture
def blobs(case: Case, tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "made")


@pytest.fixture
def ordered(case: Case, blobs: LocalStore, order_of: Orders, tmp_path: Path) -> Order:
    """An order whose blobs are here, and at no gateway yet."""
    program, roots = case.example.program, {}
    blobs.put(encode(program))
    for role, word in ROLES.items():
        if named := program.named(role):
            dtypes = {name: buffer.dtype for name, buffer in named.items()}
            save_safetensors(tmp_path / word, {name: case.example.tensors[name] for name in named}, dtypes)
            roots[word] = bytes.fromhex(blobs.names(blobs.put(tmp_path / word)).computed or "")
    blobs.put(encode_variables(case.example.variables))
    bound = merkle.variables_root(case.example.variables)
    return order_of(program=merkle.program_root(encode(program)), variables=bound, **roots)


def reveal(anvil: Anvil, client: Chain, operator: Chain, order: Order, root: bytes) -> bytes:
    """Posts, accepts, commits, waits for a seed that draws nobody, and reveals; returns the task."""
    task = order_uuid(order, client.deployment.domain)
    client.market.post(order)
    operator.market.accept(operator.address, order)
    operator.market.commit(
        operator.address, task, commitment(client.deployment.domain, task, operator.address, 0, root, SALT)
    )
    pass_seed(anvil, operator, order, drawn=False)
    operator.market.reveal(order, Opening(task, root, SALT))
    return task


def publish(url: str, blobs: LocalStore) -> None:
    with GatewayClient(url, blobs) as gateway:
        for names in list(blobs):
            gateway.upload(names.blob)


@stamina.retry(on=AssertionError, timeout=120, attempts=None, wait_max=0.2)
def eventually(check: Callable[[], object]) -> None:
    assert check()


@contextmanager
def watcher(network: Network, settings: WatchSettings) -> Iterator[list[str]]:
    """A watcher of its own, and what it says."""
    words: list[str] = []
    with alone(settings, network, lambda word: words.append(word.words)):
        yield words


@pytest.fixture
def watching(settings: Settings, tmp_path: Path) -> Callable[[str], WatchSettings]:
    """Settings of a watcher with account 3's key, which nobody else uses then."""

    def make(url: str) -> WatchSettings:
        return WatchSettings(
            network=settings.network, data=tmp_path / "watch", keystore=settings.keystore, poll=0.05, gateway=url,
            password_file=settings.password_file, block_seconds=2, unsafe_no_sandbox=False,
        )  # fmt: skip

    return make


@contextmanager
def process(
    settings: WatchSettings, key: bool = True
) -> Iterator[tuple[subprocess.Popen[str], Iterator[dict[str, Any]]]]:
    """`eigentensor watch` in a process of its own, and what it says."""
    command = [sys.executable, "-m", "eigentensor_client", "watch", "--json", "--network", str(settings.network)]
    flags = ["--data", str(settings.data), "--gateway", str(settings.gateway), "--block-seconds", "2"]
    keys = ["--keystore", str(settings.keystore), "--password-file", str(settings.password_file)] if key else []
    environment = os.environ | {"EIGENTENSOR_WATCH_POLL": "0.05"}
    with subprocess.Popen([*command, *flags, *keys], stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert running.stdout is not None
            yield running, map(json.loads, running.stdout)
        finally:
            running.kill()


def test_a_liar_who_plays_on_is_convicted_by_the_referee_slashed_and_the_challenger_paid(
    anvil: Anvil,
    client: Chain,
    operator: Chain,
    chain_of: Chains,
    case: Case,
    ordered: Order,
    blobs: LocalStore,
    settings: Settings,
    serve: Serve,
    tmp_path: Path,
) -> None:
    lying = flipping(case.call)
    chain_of(5).token.mint(anvil_account(3).address, 10**18)
    task = reveal(anvil, client, operator, ordered, case.root(lying))
    blobs_url, _ = serve(settings.model_copy(update={"keystore": None, "data": tmp_path / "blobs"}))
    publish(blobs_url, blobs)
    url, _ = serve(settings.model_copy(update={"watch": Watch(share=1, block_seconds=2, gateway=blobs_url)}))
    eventually(lambda: client.games.open(task) == (1,))
    load = lambda _, order: BoundProgram(case.example.program, (), case.example.tensors, case.example.variables, 1)  # noqa: E731
    liar = Player(operator, operator.address, load, partial(retrace, execute=lying))

    def over() -> bool:
        liar.turn(1)
        return client.market.task_at(task).state is State.CONVICTED

    eventually(over)
    assert client.market.conviction_of(task).winner == anvil_account(3).address
    assert client.market.conviction_of(task).cause is Cause.VERDICT
    assert client.market.balance_of(client.address).balance == ordered.max_price + ordered.check_fee
    parameters, price = client.deployment.parameters, ordered.max_price
    won = economics.bond(parameters, price) + economics.reward(parameters, price)
    assert client.market.balance_of(anvil_account(3).address).balance == won

    anvil.mine_past(client.market.answers_by(task))
    eventually(lambda: client.market.conviction_of(task).slashed)
    anvil.mine(20)
    # What the daemon has paid on chain it reads back in its next round.
    eventually(lambda: httpx.get(f"{url}/v1/tasks/{task.hex()}").json()["convicted"]["paid"])
    assert client.market.balance_of(anvil_account(3).address).balance > won

    game = httpx.get(f"{url}/v1/challenges/1").json()
    assert (game["state"], game["lost_by"], game["why"], game["task"]) == ("ended", "executor", "verdict", task.hex())
    assert [game["moves"][i]["move"] for i in (0, 1, -1)] == ["challenge", "publish", "verdict"]
    assert all(move["gas"] > 20_000 and move["block"] and move["account"] for move in game["moves"])
    assert {move["account"] for move in game["moves"]} == {operator.address, anvil_account(3).address}
    view = httpx.get(f"{url}/v1/tasks/{task.hex()}").json()
    assert (view["stage"], view["games"], view["convicted"]["cause"]) == ("convicted", [1], "verdict")
    assert int(view["convicted"]["paid"]) > 0 and int(view["convicted"]["slash"]["shares"]) > 0
    metrics = httpx.get(f"{url}/metrics").text
    assert 'et_looks_total{verdict="differs"} 1.0' in metrics and "et_games_open 0.0" in metrics


@pytest.mark.slow
def test_a_liar_who_is_silent_is_convicted_by_its_clock_by_a_watcher_that_was_killed(
    anvil: Anvil,
    client: Chain,
    operator: Chain,
    chain_of: Chains,
    case: Case,
    ordered: Order,
    blobs: LocalStore,
    settings: Settings,
    serve: Serve,
    watching: Callable[[str], WatchSettings],
) -> None:
    url, _ = serve(settings.model_copy(update={"keystore": None}))
    publish(url, blobs)
    chain_of(5).token.mint(anvil_account(3).address, 10**18)
    task = reveal(anvil, client, operator, ordered, case.root(flipping(case.call)))
    with process(watching(url)) as (running, reports):
        report = next(reports)
        assert report["verdict"] == "differs"
        assert report["words"].startswith("differs: challenging, since it should be ")
        assert next(reports)["words"] == "differs: challenged as game 1"
        running.send_signal(signal.SIGKILL)
    left = client.token.balance_of(anvil_account(3).address)

    anvil.mine(ordered.exec + client.deployment.parameters.clock)
    with process(watching(url)) as (running, reports):
        report = next(reports)
        assert (report["words"], report["games"]) == ("differs: game 1 convicted the executor", [1])
        anvil.mine_past(client.market.answers_by(task))
        eventually(lambda: client.market.conviction_of(task).slashed)  # nobody else was there to send it
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert client.market.conviction_of(task).winner == anvil_account(3).address
    assert not client.games.open(task) and client.token.balance_of(anvil_account(3).address) == left
    assert httpx.get(f"{url}/v1/challenges").json()["challenges"][0]["challenger"] == anvil_account(3).address


def test_a_challenge_that_a_reorganisation_throws_out_is_sent_again(
    anvil: Anvil,
    network: Network,
    client: Chain,
    operator: Chain,
    chain_of: Chains,
    case: Case,
    ordered: Order,
    blobs: LocalStore,
    settings: Settings,
    serve: Serve,
    watching: Callable[[str], WatchSettings],
) -> None:
    url, _ = serve(settings.model_copy(update={"keystore": None}))
    publish(url, blobs)
    chain_of(5).token.mint(anvil_account(3).address, 10**18)
    task = reveal(anvil, client, operator, ordered, case.root(flipping(case.call)))
    with watcher(network, watching(url)) as words:
        eventually(lambda: words[-1:] == ["differs: challenged as game 1"])
        anvil.rollback(1)
        anvil.mine(2)
        eventually(lambda: client.games.open(task) == (1,))
        eventually(lambda: words[-1] == "differs: challenged as game 1")


def test_a_right_result_agrees_and_data_that_is_missing_is_waited_for(
    anvil: Anvil,
    network: Network,
    client: Chain,
    operator: Chain,
    case: Case,
    ordered: Order,
    blobs: LocalStore,
    settings: Settings,
    serve: Serve,
    watching: Callable[[str], WatchSettings],
) -> None:
    url, _ = serve(settings.model_copy(update={"keystore": None}))
    task = reveal(anvil, client, operator, ordered, case.root(reference.execute))
    with watcher(network, watching(url)) as words:
        eventually(lambda: words)
        assert "look failed, to be tried again: " in words[0]
        publish(url, blobs)
        anvil.mine(1)
        eventually(lambda: words[-1] == "agrees")
    assert client.market.task_at(task).state is State.REVEALED and not client.games.open(task)


def test_a_watcher_without_a_compiler_does_not_begin(
    network: Network, settings: Settings, watching: Callable[[str], WatchSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "local", toolchain.local.__wrapped__)
    monkeypatch.setenv("PATH", "/nowhere")
    with (
        pytest.raises(ExecutionError, match="clang is not installed"),
        watcher(network, watching("http://127.0.0.1:9")),
    ):
        pass


def test_a_process_without_a_key_tells_what_differs_and_ends_well(
    anvil: Anvil,
    client: Chain,
    operator: Chain,
    case: Case,
    ordered: Order,
    blobs: LocalStore,
    settings: Settings,
    serve: Serve,
    watching: Callable[[str], WatchSettings],
) -> None:
    url, _ = serve(settings.model_copy(update={"keystore": None}))
    publish(url, blobs)
    task = reveal(anvil, client, operator, ordered, case.root(flipping(case.call)))
    with process(watching(url), key=False) as (running, reports):
        report = next(reports)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert (report["schema"], report["task"], report["verdict"]) == ("eigentensor.watch/2", task.hex(), "differs")
    assert report["words"] == "differs, and is not challenged: there is no account that could"
    assert not client.games.open(task)
