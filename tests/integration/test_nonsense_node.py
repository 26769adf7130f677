"""A node that answers nonsense: nothing shows a traceback, everything says what is wrong and what to do."""

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from eigentensor.chain import Network, Reader, anvil_account, rpc, save_account
from eigentensor.chain.journal import Journal
from eigentensor.chain.sender import Fees, Message, Sender
from eigentensor.chain.survey import survey
from eigentensor.errors import ChainError, Unreachable
from eigentensor.program.codec import encode
from eigentensor.store import save_safetensors
from eigentensor_client.cli import main
from support.hostile.node import false_node
from support.programs.worked_examples import layer
from support.stories.game_table import CLIENT
from support.stories.market import Life

TASK = "ab" * 32


def answer(result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).encode()


def failing(error: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode()


#: What a service that is no node, or a broken one, may say to every request: HTTP status and body.
KINDS: dict[str, tuple[int, bytes]] = {
    "no JSON": (200, b"pong"),
    "HTML": (200, b"<!doctype html><title>Welcome to nginx</title>"),
    "nothing": (200, b""),
    "truncated": (200, b'{"jsonrpc": "2.0", "id": 0, "result": "0x7a'),
    "no UTF-8": (200, b'{"result": "\xff\xfe"}'),
    "deep": (200, b"[" * 100_000),
    "a list": (200, b"[1, 2, 3]"),
    "no result": (200, b'{"jsonrpc": "2.0", "id": 0}'),
    "null": (200, answer(None)),
    "a number": (200, answer(31337)),
    "an object": (200, answer({"number": []})),
    "a word": (200, answer("0xnonsense")),
    "too long a number": (200, answer("0x" + "f" * 1_000)),
    "another chain": (200, answer("0x1")),
    "an error object": (200, failing({"code": -32000, "message": "too many requests"})),
    "an error that is a text": (200, failing("bad gateway")),
    "an error without words": (200, failing({})),
    "a refusal without sense": (200, failing({"code": 3, "message": "execution reverted", "data": "0xzz"})),
    "HTTP 500": (500, b"oops"),
    "HTTP 429": (429, answer("0x7a69")),
    "HTTP 404": (404, b"not here"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for word in ("STATE", "DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{word}_HOME", str(tmp_path / word.lower()))
    save_account(anvil_account(CLIENT), tmp_path / "key.json", "local", iterations=1)
    (tmp_path / "password").write_text("local")
    for part in ("", "_OPERATOR", "_AGGREGATOR", "_WATCH"):
        monkeypatch.setenv(f"EIGENTENSOR{part}_KEYSTORE", str(tmp_path / "key.json"))
        monkeypatch.setenv(f"EIGENTENSOR{part}_PASSWORD_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("EIGENTENSOR_AGGREGATOR_PORT", "0")
    example = layer()
    (tmp_path / "x.program").write_bytes(encode(example.program))
    weights = {name: np.array(array) for name, array in example.tensors.items()}
    np.save(tmp_path / "x.npy", weights.pop("x"))
    save_safetensors(tmp_path / "w.safetensors", weights)
    return tmp_path


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """A daemon's command takes them; this process is to end by them as before."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


BOUND = "x.program -i x=@x.npy -w w.safetensors --max-price 0.05"
COMMANDS = [
    "ps", "wallet show", f"run {BOUND}", f"plan {BOUND}", f"task show {TASK}",
    f"logs {TASK}", "operator status", "operator up --stake 1", "operator leave", "aggregator run", "watch",
    "challenge claim",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_a_traceback(
    network: Network, home: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    response = KINDS["nothing"]
    monkeypatch.chdir(home)
    monkeypatch.setattr(rpc, "PATIENCE", 0)
    with false_node(lambda *_: response) as url:
        path = replace(network, rpc_url=url).save(home / "network.json")
        monkeypatch.setenv("EIGENTENSOR_NETWORK", str(path))
        for kind, response in KINDS.items():  # noqa: B007 -- the node says it
            with pytest.raises(SystemExit) as ended:
                main(command.split())
            printed = capsys.readouterr().err
            assert ended.value.code in (10, 11), f"{kind}: {ended.value.code}: {printed}"
            assert "error  " in printed and "  fix  " in printed, f"{kind}: {printed}"
            assert "Traceback" not in printed, kind


# ---- A node that is right, but for one answer ----

JUNK: list[Any] = [
    None,
    "",
    "0x",
    "0x0",
    "0xzz",
    "latest",
    -1,
    0.5,
    True,
    [],
    {},
    ["0x0"],
    "0x" + "11" * 32,
    "0x" + "11" * 20,
]


def spoiled(body: bytes, random: Random) -> bytes:
    """The same answer with one thing in it that is not what it was."""
    response = json.loads(body)
    result = response.get("result")
    if isinstance(result, str) and len(result) > 66 and random.random() < 0.7:  # what a contract returned
        data = bytes.fromhex(result[2:])
        at = random.randrange(len(data))
        data = random.choice([data[:at], data + data[:at], data[:at] + random.randbytes(len(data) - at)])
        return json.dumps(response | {"result": "0x" + data.hex()}).encode()
    inside, name = response, "result" if "result" in response else "error"
    while isinstance(inside[name], (dict, list)) and inside[name] and random.random() < 0.8:
        inside = inside[name]
        name = random.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
    if isinstance(inside, dict) and random.random() < 0.3:
        del inside[name]
    else:
        inside[name] = random.choice(JUNK)
    return json.dumps(response).encode()


def views(life: Life) -> dict[str, Callable[[Reader], object]]:
    """What is asked of a node, about a task that is checked."""
    task, who, order = life.task, life.operator.address, life.order
    block = life.client.node.block_number()
    sent = next(iter(life.client.history.events_of(task, life.client.deployment.block))).place.transaction
    return {
        "check": lambda s: s.node.check(), "newest": lambda s: s.node.newest(), "genesis": lambda s: s.node.genesis(),
        "seconds": lambda s: s.node.block_seconds(), "gas": lambda s: s.node.gas_price(),
        "finalized": lambda s: s.node.finalized(), "parameters": lambda s: s.market.parameters(),
        "seats": lambda s: s.stake.seat_count(), "delay": lambda s: s.stake.stake_delay(),
        "paused": lambda s: s.stake.is_slashing_paused(), "set": lambda s: s.stake.operator_set(),
        "header": lambda s: s.node.header(block), "ether": lambda s: s.node.ether_of(who),
        "receipt": lambda s: s.node.receipt(sent), "transaction": lambda s: s.node.transaction(sent),
        "count": lambda s: s.node.transaction_count(who), "task": lambda s: s.market.task_at(task),
        "deadline": lambda s: s.market.deadline_of(task), "drawn": lambda s: s.market.is_drawn(order),
        "seat": lambda s: s.market.seat_of(task, 0), "answer": lambda s: s.market.answer_of(task, 0),
        "games": lambda s: s.games.of(task), "conviction": lambda s: s.market.conviction_of(task),
        "balance": lambda s: s.market.balance_of(who), "signer": lambda s: s.stake.signer_of(who),
        "lock": lambda s: s.stake.lock_of(task, who), "deallocation": lambda s: s.stake.deallocation_of(who),
        "order": lambda s: s.history.order_of(task), "events": lambda s: list(s.history.events(block - 20, block)),
        "changes": lambda s: s.history.changes([s.node.head()]), "findings": lambda s: survey(s, who),
        "fees": lambda s: Fees(s.node, None).first(),
    }  # fmt: skip


@dataclass
class Spoiler:
    """Spoils one answer: the one behind so many others."""

    random: Random
    left: int = 0

    def says(self, _: str, true: bytes) -> tuple[int, bytes]:
        self.left -= 1
        return 200, spoiled(true, self.random) if self.left == -1 else true


@pytest.fixture
def spoiler(network: Network) -> Iterator[tuple[Spoiler, Network]]:
    spoiler = Spoiler(Random(19), 1 << 30)
    with false_node(spoiler.says, network.rpc_url) as url:
        yield spoiler, replace(network, rpc_url=url)


def test_one_wrong_answer_is_an_error_of_the_chain_or_changes_what_is_told(
    spoiler: tuple[Spoiler, Network], life: Life
) -> None:
    life.drawn()
    spoils, reader, refused = spoiler[0], Reader(spoiler[1]), 0
    for name, view in views(life).items():
        for _ in range(10):
            spoils.left = spoils.random.randrange(3)
            try:
                view(reader)
            except ChainError as error:
                refused += 1
                assert error.fix, f"{name}: {error}"
    assert refused > 100


def test_a_transaction_survives_any_one_wrong_answer_or_says_what_to_do(spoiler: tuple[Spoiler, Network]) -> None:
    spoils, account = spoiler[0], anvil_account(CLIENT)
    reader = Reader(spoiler[1])
    message = Message.of(reader.node.token, "approve", reader.deployment.task_market, 1)
    for number in range(40):
        spoils.left = number % 14
        sender = Sender(reader.node, account, Journal(None), patience=1, deadline=3)
        try:
            sender.send(message)
        except ChainError as error:
            assert error.fix, str(error)


# ---- A node that takes its time ----


@pytest.mark.parametrize("drips", [False, True])
def test_a_node_that_never_ends_its_answer_is_unreachable(network: Network, drips: bool) -> None:
    over = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def hang() -> None:
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(1 << 16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                    while not over.wait(0.05):
                        connection.sendall(b" " * drips)

        thread = threading.Thread(target=hang)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            with pytest.raises(Unreachable, match="Time") as refused:
                Reader(replace(network, rpc_url=url), timeout=0.3).node.check()
            assert "rpc_url" in refused.value.fix
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_huge_answer_is_not_read(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "MOST", 1 << 20)
    with false_node(lambda *_: (200, b" " * (2 << 20))) as url:
        with pytest.raises(ChainError, match="more than 1 MiB") as refused:
            Reader(replace(network, rpc_url=url)).node.check()
        assert refused.value.fix
