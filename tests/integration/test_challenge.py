"""`eigentensor challenge` as a stranger uses it: look, challenge, play, be killed, go on, be paid."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import economics, merkle, reference
from eigentensor.capture import GraphProgram, TensorContext
from eigentensor.chain import Chain, Network, Opening, anvil_account, save_account
from eigentensor.errors import ChainError, InsufficientFunds
from eigentensor.player import Player
from eigentensor.program import Role, encode
from eigentensor.program.binding import Results
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor.task import Order, State, commitment, order_uuid
from eigentensor.tracing import retrace
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_client.challenging import Challenger, read_game
from eigentensor_client.cli import main
from eigentensor_client.client import Client
from eigentensor_client.verbs import challenge
from eigentensor_local.actors import lied, lying
from eigentensor_local.anvil import Anvil, pass_seed
from eigentensor_operator.data import Shelf

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]
Serve = Callable[[Settings], tuple[str, Daemon]]
Call = Callable[..., tuple[int, str, str]]
SALT, STRANGER = b"\3" * 32, 5
TOKENS = 10**18


@pytest.fixture(scope="module")
def graph() -> GraphProgram:
    """A matrix product with a bias: reductions, and an expression above them."""
    context = TensorContext()
    a, b = context.add_graph_input("a", (8, 16)), context.add_graph_input("b", (16, 8))
    bias = context.add_weight("bias", Tensor(np.arange(8, dtype=np.float32)))
    return context.compile_to_graph((a @ b + bias).relu())


@pytest.fixture(scope="module")
def tensors(graph: GraphProgram) -> dict[str, Any]:
    a, b = np.random.default_rng(7).standard_normal((2, 8, 16), dtype=np.float32)
    return {"a": a, "b": b.T.copy(), **graph.weights}


class Market:
    """A served market in which one operator reveals what a test says, and a stranger who has a key and a shell."""

    def __init__(
        self,
        url: str,
        anvil: Anvil,
        client: Chain,
        operator: Chain,
        graph: GraphProgram,
        tensors: dict[str, Any],
        order: Order,
    ) -> None:
        self.url, self.anvil, self.client, self.operator = url, anvil, client, operator
        self.program, self.tensors, self.order = graph.program, tensors, order
        self.task = order_uuid(order, client.deployment.domain)
        self.uuid = self.task.hex()

    def commit(self, root: bytes) -> None:
        self.client.market.post(self.order)
        me, domain = self.operator.address, self.client.deployment.domain
        self.operator.market.accept(me, self.order)
        self.operator.market.commit(me, self.task, commitment(domain, self.task, me, 0, root, SALT))

    def reveal(self, root: bytes) -> None:
        self.commit(root)
        pass_seed(self.anvil, self.operator, self.order, drawn=False)
        self.operator.market.reveal(self.order, Opening(self.task, root, SALT))

    def upload(self, results: Results) -> None:
        """As an executor does after its reveal."""
        with TemporaryDirectory() as folder, GatewayClient(self.url, LocalStore(Path(folder, "blobs"))) as gateway:
            shelf = Shelf(Path(folder, "results"))
            shelf.keep(self.task, self.program, results)
            shelf.upload(self.task, gateway)

    def load(self, _: bytes, __: Order) -> BoundProgram:
        return BoundProgram(self.program, (), self.tensors, {}, 1)

    @contextmanager
    def played(self, player: Player, *, patient: bool = True) -> Iterator[None]:
        """Moves of one side whenever it is its turn, while the block lasts; without patience blocks pass meanwhile."""
        over = threading.Event()

        def play() -> None:
            while not over.wait(0.05):
                with suppress(ChainError):  # the other side was faster
                    games = self.operator.games.open(self.task)
                    moved = [player.turn(game) for game in games]
                    if games and not any(moved) and not patient:
                        self.anvil.mine(10)

        thread = threading.Thread(target=play)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.fixture
def market(
    anvil: Anvil,
    network: Network,
    client: Chain,
    operator: Chain,
    chain_of: Chains,
    order_of: Orders,
    graph: GraphProgram,
    tensors: dict[str, Any],
    settings: Settings,
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Market:
    """Blobs are at its gateway; the stranger's key is where the command finds it, and tokens for bonds with it."""
    url, _ = serve(settings.model_copy(update={"keystore": None}))
    store, roots = LocalStore(tmp_path / "made"), {}
    program = store.put(encode(graph.program))
    for role, word in ((Role.INPUT, "inputs"), (Role.WEIGHT, "weights")):
        save_safetensors(tmp_path / word, {name: tensors[name] for name in graph.program.named(role)})
        roots[word] = bytes.fromhex(store.names(store.put(tmp_path / word)).computed or "")
    with GatewayClient(url, store) as gateway:
        for names in list(store):
            gateway.upload(names.blob)
    chain_of(8).token.mint(anvil_account(STRANGER).address, TOKENS)
    use_account(monkeypatch, tmp_path, STRANGER)
    for name, folder in (("EIGENTENSOR_CACHE_DIR", "cache"), ("XDG_STATE_HOME", "state"), ("XDG_DATA_HOME", "data")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("EIGENTENSOR_NETWORK", str(replace(network, gateway_url=url).save(tmp_path / "here.json")))
    uuid = bytes.fromhex(store.names(program).computed or "")
    return Market(url, anvil, client, operator, graph, tensors, order_of(program=uuid, **roots))


def use_account(monkeypatch: pytest.MonkeyPatch, folder: Path, index: int) -> None:
    save_account(anvil_account(index), folder / f"{index}.json", "local", iterations=1)
    (folder / "password").write_text("local")
    monkeypatch.setenv("EIGENTENSOR_KEYSTORE", str(folder / f"{index}.json"))
    monkeypatch.setenv("EIGENTENSOR_PASSWORD_FILE", str(folder / "password"))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """A command, in this process: its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["challenge", *words])
        code = ended.value.code
        return (code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def true_root(graph: GraphProgram, tensors: dict[str, Any]) -> bytes:
    return retrace(graph.program, tensors).outputs


@pytest.fixture(scope="module")
def false_root(graph: GraphProgram, tensors: dict[str, Any]) -> bytes:
    return merkle.results_root(graph.program, lied(graph.program, reference.execute(graph.program, tensors)))


def objects(out: str) -> list[dict[str, Any]]:
    """What a command said; the gateway, which runs in this process, logs between."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@contextmanager
def process(*words: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "eigentensor_client", "challenge", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def line_with(stream: Any, pattern: str) -> str:
    """Reads until a line has it."""
    lines = []
    for line in stream:
        lines.append(line)
        if re.search(pattern, line):
            return str(line)
    raise AssertionError(f"never said {pattern!r}: {''.join(lines)}")


def test_a_lie_is_challenged_convicted_and_paid_for(
    market: Market, call: Call, false_root: bytes, chain_of: Chains
) -> None:
    stranger, liar = chain_of(STRANGER), Player(market.operator, market.operator.address, market.load, lying(retrace))
    parameters, price = market.client.deployment.parameters, market.order.max_price
    market.reveal(false_root)
    with market.played(liar):
        code, out, err = call("open", market.uuid, "--yes")
    assert code == 0, err
    assert re.search(r"block \d+  executor .* gas  published the tensor roots of all executed calls: ", out)
    assert "the referee computes another value than the executor claims: the executor loses" in out
    assert "ended: the executor lost" in out and "to you: bond" in out and "to you: reward" in out
    assert market.client.market.task_at(market.task).state is State.CONVICTED
    assert market.client.market.conviction_of(market.task).winner == stranger.address
    won = economics.bond(parameters, price) + economics.reward(parameters, price)
    assert stranger.market.balance_of(stranger.address).balance == won

    code, _, err = call("open", market.uuid, "--yes")
    assert code == 12 and "is convicted" in err and "challenge claim" in err

    def claim(*words: str) -> dict[str, Any]:
        code, out, err = call("claim", *words, "--json")
        assert code == 0, err
        (result,) = objects(out)
        return result

    (waits,) = claim("--dry-run")["claims"]
    assert (waits["message"], waits["state"], waits["waits"]) == ("slash", "waits", f"block {waits['first']}")
    market.anvil.mine_past(market.client.market.answers_by(market.task))
    (sent,) = claim(market.uuid)["claims"]
    assert (sent["message"], sent["state"]) == ("slash", "sent") and sent["gas"] > 21_000
    (early,) = claim("1")["claims"]
    assert (early["message"], early["state"]) == ("pay", "waits")
    market.anvil.mine(20)
    before = stranger.market.balance_of(stranger.address).balance
    paid = claim()
    assert [(one["message"], one["state"]) for one in paid["claims"]] == [("pay", "sent")]
    assert int(paid["claims"][0]["brings"]) == stranger.market.balance_of(stranger.address).balance - before > 0
    assert claim()["claims"] == []
    tokens = stranger.token.balance_of(stranger.address)
    taken = claim("--withdraw")
    assert int(taken["withdrawn"]) == stranger.token.balance_of(stranger.address) - tokens > won
    assert stranger.market.balance_of(stranger.address).balance == 0 == int(taken["balance"])

    _, out, _ = call("show", "1", "--json")
    (game,) = objects(out)
    seen = read_game(market.client, 1, {})
    assert {name: game[name] for name in seen if name != "block"} == {n: v for n, v in seen.items() if n != "block"}
    assert [payout["what"] for payout in game["payouts"]] == ["bond", "reward", "escrow", "share of the slash"]
    assert game["body"] and game["path"][-1]["part"] in ("steps", "element", "expression", "reduction", "leaf")
    _, out, _ = call("show", "1")
    assert "the disputed call computes" in out and "transactions, " in out


@pytest.mark.slow
def test_a_challenger_that_is_killed_and_interrupted_goes_on_with_its_one_game(
    market: Market, call: Call, false_root: bytes, chain_of: Chains, monkeypatch: pytest.MonkeyPatch
) -> None:
    market.reveal(false_root)
    with process("open", market.uuid, "--yes", "--json") as running:
        differs = json.loads(line_with(running.stdout, '"differs"'))
        assert json.loads(line_with(running.stdout, '"opened"'))["game"] == 1
        running.send_signal(signal.SIGKILL)
    assert differs["difference"] is None and int(differs["bond"]) > int(differs["reward"]) > 0
    with process("open", market.uuid) as running:
        line_with(running.stdout, "claims that the result is wrong")
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)
    assert running.returncode == 130 and "Traceback" not in err
    assert "game 1 about it is yours and open: it goes on" in err
    assert f"game 1 goes on without you: `eigentensor challenge open {market.uuid}` takes it up again" in err
    assert re.search(r"the executor moves until block \d+.*; once it is your move, you have 70 blocks \(about", err)
    market.anvil.mine(market.order.exec + market.client.deployment.parameters.clock)
    stranger = chain_of(STRANGER)
    mover, ends = Player(stranger, stranger.address, market.load), [False]
    with GatewayClient(market.url) as gateway, ExitStack() as stack, monkeypatch.context() as patched:

        def sleep(_: float) -> None:
            """The game is played on when it was shown; Ctrl-C, when it was looked at after its end."""
            if ends == [False]:
                stack.enter_context(market.played(mover))
            ends.append(not gateway.challenges(state="open")["challenges"])
            if sum(ends) > 1:
                raise KeyboardInterrupt

        patched.setattr(challenge, "time", SimpleNamespace(sleep=sleep))
        code, out, _ = call("watch")
    assert code == 130 and "game 1:  1  block" in out and "game 1: ended: the executor lost" in out
    code, out, _ = call("watch", "1")
    assert code == 0 and "the executor's clock is over: it loses" in out and "ended: the executor lost" in out
    assert market.client.games.of(market.task) == {1: False}


def test_a_right_result_is_left_alone_and_a_challenge_of_it_is_lost(
    market: Market, call: Call, true_root: bytes, chain_of: Chains
) -> None:
    market.commit(true_root)
    code, _, err = call("open", market.uuid)
    assert code == 9 and "its result is not revealed yet" in err
    pass_seed(market.anvil, market.operator, market.order, drawn=False)
    market.operator.market.reveal(market.order, Opening(market.task, true_root, SALT))
    code, out, err = call("open", market.uuid, "--json")
    assert code == 0, err
    (event,) = objects(out)
    assert (event["schema"], event["event"]) == ("eigentensor.challenging/1", "agrees")
    assert event["claimed"] == event["computed"] == true_root.hex()

    stranger = chain_of(STRANGER)
    stranger.token.ensure_allowance(stranger.deployment.task_market, TOKENS)
    stranger.market.challenge(stranger.address, market.order)
    with market.played(Player(market.operator, market.operator.address, market.load), patient=False):
        code, out, err = call("open", market.uuid)
    assert code == 14 and "published the tensor roots" in out
    assert "game 1 about task" in err and "is lost, and with it the bond of" in err


def test_a_lie_is_shown_and_priced_and_what_cannot_be_challenged_is_said_before_anything_is_spent(
    market: Market,
    call: Call,
    false_root: bytes,
    true_root: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, _, err = call("open", "ab" * 32)
    assert code == 4 and "there is no task" in err
    for words in (["show", "99"], ["watch", "99"], ["claim", "99"]):
        code, out, err = call(*words)
        assert (code, out) == (4, "") and "there is no game 99" in err
    market.reveal(false_root)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "/nowhere")
        code, _, err = call("open", market.uuid)
        assert code == 7 and "bubblewrap is not installed" in err
    code, _, err = call("open", market.uuid, "--max-memory", "64")
    assert code == 7 and "--max-memory" in err
    market.upload(lied(market.program, reference.execute(market.program, market.tensors)))

    code, out, err = call("open", market.uuid)
    assert (code, market.client.games.of(market.task)) == (8, {})
    assert "THE RESULT IS WRONG" in out and false_root.hex() in err and true_root.hex() in err
    assert re.search(r"output\[0, 0\], which executed call 0 wrote: \S+ \(0x[0-9a-f]{8}\) is claimed, \S+ \(0x", err)
    assert f"challenge open {market.uuid} --yes" in err
    with monkeypatch.context() as patched:
        use_account(patched, tmp_path, 9)
        with Client() as pauper, pytest.raises(InsufficientFunds, match="are needed for the bond"):
            doubting = Challenger(pauper, pauper.task(market.uuid), memory=1 << 30)
            doubting.open(doubting.stakes())
        _, out, _ = call("claim")
        assert "nothing is due" in out
    market.anvil.mine_past(market.client.market.deadline_of(market.task))
    code, _, err = call("open", market.uuid, "--yes")
    assert code == 11 and "closed with block" in err
    assert market.client.games.of(market.task) == {}


@pytest.mark.slow
def test_a_receipt_of_a_lie_is_true_and_its_result_is_not(
    market: Market, false_root: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    market.reveal(false_root)
    market.upload(lied(market.program, reference.execute(market.program, market.tensors)))
    file = str(tmp_path / "lie.receipt")
    codes, err = [], ""
    for words in (["get", market.uuid, "-o", file], ["check", file, "--chain"], ["check", file, "--deep"]):
        with pytest.raises(SystemExit) as ended:
            main(["receipt", *words])
        codes.append(ended.value.code or 0)
        err = capsys.readouterr().err
    assert codes == [0, 0, 8]
    assert f"the result of task {market.uuid} is wrong, as this machine computes it, twice: output[" in err
