"""Several nodes of a chain: who fails, answers nonsense, is asked too often or is behind is asked after the others."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from email.utils import formatdate

import pytest

from eigentensor.chain import Chain, Network, Reader, anvil_account, rpc
from eigentensor.errors import Unreachable
from eigentensor_local.anvil import Anvil
from support.hostile.node import Says, false_node
from support.stories.game_table import CLIENT

Nodes = Callable[..., Network]


@pytest.fixture
def nodes(network: Network) -> Iterator[Nodes]:
    """The same network by nodes that say what is given, each in the place of the true one."""
    with ExitStack() as stack:

        def made(*says: Says) -> Network:
            urls = [stack.enter_context(false_node(one, network.rpc_url)) for one in says]
            return replace(network, rpc_url=", ".join(urls))

        yield made


def error(code: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": "no"}}).encode()


def behind(blocks: int) -> Says:
    """A node that is so many blocks behind, in what it says of the newest."""

    def says(method: str, true: bytes) -> tuple[int, bytes]:
        if method == "eth_blockNumber":
            answer = json.loads(true)
            answer["result"] = hex(int(answer["result"], 16) - blocks)
            return 200, json.dumps(answer).encode()
        return 200, true

    return says


BAD: dict[str, Says] = {
    "429": lambda method, true: (429, b"slow down"),
    "too much": lambda method, true: (200, error(-32005)),
    "500": lambda method, true: (500, true),
    "nonsense": lambda method, true: (200, b"<html>"),
    "behind": behind(9),
    "another question's": lambda method, true: (200, json.dumps(json.loads(true) | {"id": 10**9}).encode()),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_node_that_does_not_serve_is_asked_after_the_others(
    nodes: Nodes, network: Network, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "_FIRST", 60.0)  # it rests for the whole of this
    asked: Counter[str] = Counter()

    def counted(name: str, says: Says) -> Says:
        def heard(method: str, true: bytes) -> tuple[int, bytes]:
            asked[name] += 1
            return says(method, true)

        return heard

    true = Reader(network).node.block_number()
    both = Reader(nodes(counted("good", lambda method, true: (200, true)), counted("bad", BAD[bad]))).node
    assert both.block_number() == true and asked["bad"] == 0
    both.rpc._endpoints.reverse()  # as after a fault of the good one
    assert [both.block_number() for _ in range(4)] == [true] * 4
    assert asked["bad"] == 1
    both.check()


def test_where_none_serves_the_last_one_says_why_and_where_all_are_behind_they_are_believed(
    nodes: Nodes, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "PATIENCE", 0)
    with pytest.raises(Unreachable, match="HTTP 429"):
        Reader(nodes(BAD["500"], BAD["429"])).node.block_number()
    node = Reader(nodes(behind(9), behind(9))).node
    node.rpc._highest = Reader(network).node.block_number()
    assert node.block_number() == node.rpc._highest == Reader(network).node.block_number() - 9


def test_messages_are_mined_once_over_nodes_that_fail_in_turn(
    nodes: Nodes, anvil: Anvil, client: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "_FIRST", 60.0)  # else the clock would say whose turn it is, and both could fail at once
    turn: Counter[str] = Counter()

    def every_third(name: str) -> Says:
        def says(_: str, true: bytes) -> tuple[int, bytes]:
            turn[name] += 1
            return (502, b"") if turn[name] % 3 == 0 else (200, true)

        return says

    network = nodes(every_third("a"), every_third("b"))
    before = client.node.transaction_count(client.address)
    with Chain(network, anvil_account(CLIENT), None, deadline=30) as chain:
        for amount in range(1, 6):
            chain.token.approve(chain.deployment.task_market, amount)
    assert client.node.transaction_count(client.address) == before + 5
    assert min(turn.values()) > 5


def test_a_node_is_the_first_again_when_it_has_rested(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "_FIRST", 0.05)
    asked: list[str] = []

    def named(name: str, status: Callable[[], int]) -> Says:
        def says(_: str, true: bytes) -> tuple[int, bytes]:
            asked.append(name)
            return status(), true

        return says

    node = Reader(nodes(named("first", lambda: 502 if len(asked) < 2 else 200), named("other", lambda: 200))).node
    node.block_number()
    while asked[-1] == "other":
        node.block_number()
        time.sleep(0.01)
    assert asked[:2] == ["first", "other"]


@pytest.mark.parametrize(("said", "least"), [("1", 1.0), ("a date", 1.0), ("soon", 0.5), (None, 0.5)])
def test_a_node_that_wants_fewer_requests_is_asked_again_when_it_said_and_not_before(
    network: Network, said: str | None, least: float
) -> None:
    times: list[float] = []

    def says(_: str, true: bytes) -> tuple[int, bytes]:
        times.append(time.monotonic())
        return (429 if len(times) < 2 else 200), true

    said = formatdate(time.time() + 2, usegmt=True) if said == "a date" else said  # of whole seconds
    with false_node(says, network.rpc_url, {} if said is None else {"Retry-After": said}) as url:
        assert Reader(replace(network, rpc_url=url)).node.block_number()
    assert len(times) == 2 and times[1] - times[0] > least - 0.1


def test_a_node_that_never_wants_requests_gets_few(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "PATIENCE", 0.5)
    asked: Counter[str] = Counter()

    def says(method: str, true: bytes) -> tuple[int, bytes]:
        asked[method] += 1
        return 429, b""

    with false_node(says, network.rpc_url, {"Retry-After": "3600"}) as url:
        node = Reader(replace(network, rpc_url=url)).node
        for _ in range(9):
            with pytest.raises(Unreachable):
                node.block_number()
    assert asked.total() == 1
