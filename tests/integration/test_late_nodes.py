"""Nodes behind one address that do not agree, or know less than they count: nothing is missed or sent twice."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor.chain import Chain, Head, Network, Reader
from eigentensor.chain.sender import Message, Sender
from eigentensor.errors import ChainError, Unreachable
from eigentensor.task import Order
from eigentensor.task.events import Deposited, Event, Moved
from eigentensor_aggregator.daemon import PRUNE, Daemon
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.watch.machine import Act, Verdict
from eigentensor_local.anvil import Anvil
from support.hostile.node import Answers, Says, balanced, counting, false_node, late, true
from support.stories.game_table import Table
from support.stories.players import Dispute, lying

Orders = Callable[..., Order]
DEEP = 32  #: blocks of the longest reorganisation


@contextmanager
def pair(network: Network, blocks: int = 2) -> Iterator[Network]:
    """A node that is there, and one that is so many blocks late, in turn behind one address."""
    nodes: tuple[Answers, ...] = true(network.rpc_url), late(network.rpc_url, blocks)
    with balanced(*nodes) as url:
        yield replace(network, rpc_url=url)


class Follower:
    """Whoever reads a chain on and on, and may be told that it cannot be done now."""

    def __init__(self, network: Network, heads: list[Head]) -> None:
        self.reader, self.heads = Reader(network), heads
        self.events: list[Event] = []
        self.rolled_back: list[int] = []
        self.failed = 0

    def look(self) -> bool:
        """Whether it has read all that there is."""
        try:
            changes = self.reader.history.changes(self.heads)
        except ChainError:
            self.failed += 1
            return False
        if (to := changes.rolled_back_to) is not None:
            self.rolled_back.append(to)
            self.heads = [head for head in self.heads if head.number <= to]
            self.events = [event for event in self.events if event.place.block <= to]
        self.events += changes.events
        self.heads += changes.heads
        return changes.complete


def amounts(events: list[Event]) -> list[int]:
    return [event.amount for event in events if isinstance(event, Deposited)]


@pytest.mark.parametrize("step", [1, 3])
def test_of_a_pair_that_disagrees_every_event_is_read_once_and_nothing_is_taken_back(
    anvil: Anvil, network: Network, client: Chain, step: int
) -> None:
    heads = list(Reader(network).history.changes().heads)
    with pair(network) as both:
        follower = Follower(both, heads)
        for amount in range(1, 13):
            anvil.mine(step - 1)
            client.market.deposit(client.address, amount)
            follower.look()
        newest = client.node.head()
        for _ in range(20):
            follower.look()
    assert follower.heads[-1] == newest and follower.rolled_back == []
    assert amounts(follower.events) == list(range(1, 13)) and follower.failed


def test_messages_by_a_pair_that_disagrees_are_in_the_chain_once(network: Network, client: Chain) -> None:
    before = client.node.transaction_count(client.address)
    with pair(network, 1) as both:
        sender = Sender(Reader(both).node, client.account, client.journal, patience=5, deadline=30, poll=0.01)
        for amount in (1, 2):
            message = Message.of(client.node.market, "deposit", client.address, amount)
            for _ in range(20):
                with suppress(ChainError):
                    sender.send(message, f"deposit {amount}")
                    break
    assert client.node.transaction_count(client.address) == before + 2
    assert client.market.balance_of(client.address).balance == 3


@pytest.fixture
def spoiled(network: Network) -> Iterator[Callable[[Says], Network]]:
    """The network by a node that says what is given in the place of the true one."""
    with ExitStack() as stack:
        yield lambda says: replace(network, rpc_url=stack.enter_context(false_node(says, network.rpc_url)))


def test_a_receipt_that_comes_late_is_waited_for_and_nothing_is_sent_again(
    spoiled: Callable[[Says], Network], client: Chain
) -> None:
    nulls: Counter[str] = Counter()

    def says(method: str, told: bytes) -> tuple[int, bytes]:
        if method == "eth_getTransactionReceipt" and nulls[method] < 40:
            nulls[method] += 1
            return 200, json.dumps({"jsonrpc": "2.0", "id": 0, "result": None}).encode()
        return 200, told

    before = client.node.transaction_count(client.address)
    sender = Sender(Reader(spoiled(says)).node, client.account, client.journal, deadline=60, poll=0.01)
    mined = sender.call(client.node.market, "deposit", client.address, 7, once="late")
    assert nulls.total() == 40 and mined.block == client.node.block_number()
    assert sender.call(client.node.market, "deposit", client.address, 7, once="late") == mined
    assert client.node.transaction_count(client.address) == before + 1
    assert client.market.balance_of(client.address).balance == 7


def test_what_has_left_goes_on_while_its_node_is_away(
    spoiled: Callable[[Says], Network], anvil: Anvil, client: Chain
) -> None:
    away: list[str] = []
    left = False

    def says(method: str, told: bytes) -> tuple[int, bytes]:
        nonlocal left
        left = left or method == "eth_sendRawTransaction"
        if left and method != "eth_sendRawTransaction" and len(away) < 6:
            away.append(method)
            return 502, b""
        return 200, told

    sender = Sender(Reader(spoiled(says)).node, client.account, client.journal, deadline=60, poll=0.01)
    assert sender.call(client.node.market, "deposit", client.address, 7).block == client.node.block_number()
    assert len(away) == 6
    anvil.rpc("evm_setAutomine", False)
    waits = client.sender.submit(Message.of(client.node.market, "deposit", client.address, 8))
    dead = Sender(Reader(spoiled(lambda *_: (502, b""))).node, client.account, client.journal, patience=0.2)
    with pytest.raises(Unreachable, match="502"):
        dead.wait(waits)


def test_a_node_that_gives_logs_of_few_blocks_only_is_read_in_smaller_parts(
    spoiled: Callable[[Says], Network], anvil: Anvil, network: Network, client: Chain
) -> None:
    heads = list(Reader(network).history.changes().heads)
    for amount in range(1, 4):
        client.market.deposit(client.address, amount)
        anvil.mine(5)
    refused: Counter[str] = Counter()

    def says(method: str, told: bytes) -> tuple[int, bytes]:
        if method == "eth_getLogs" and follower.reader.history._span > 4:
            refused[method] += 1
            error = {"code": -32005, "message": "query returned more than 10000 results"}
            return 200, json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode()
        return 200, told

    follower = Follower(spoiled(says), heads)
    while not follower.look():
        assert follower.failed == 0
    assert amounts(follower.events) == [1, 2, 3] and refused.total() > 2


def test_a_reorganisation_of_many_blocks_is_followed_and_what_it_threw_out_is_sent_again(
    anvil: Anvil, network: Network, client: Chain, operator: Chain, order_of: Orders
) -> None:
    follower = Follower(network, [])
    while not follower.look():
        pass
    base = client.node.head()
    order = order_of(accept_by=base.number + 3 * DEEP)
    before = anvil.rpc("evm_snapshot")
    sent = [(chain, chain.node.transaction_count(chain.address)) for chain in (client, operator)]
    client.market.post(order)
    for _ in range(DEEP - 2):
        anvil.mine()
        follower.look()
    operator.market.accept(operator.address, order)
    follower.look()
    told = [event for event in follower.events if event.place.block <= base.number]
    assert len(follower.events) > len(told) and client.node.block_number() == base.number + DEEP
    assert anvil.rpc("evm_revert", before)
    for _ in range(DEEP + 1):
        anvil.mine()
        follower.look()
    assert (follower.rolled_back, follower.events) == ([base.number], told)
    client.market.post(order)
    operator.market.accept(operator.address, order)
    follower.look()
    assert follower.events == list(Reader(network).history.events(0))
    assert [chain.node.transaction_count(chain.address) for chain, _ in sent] == [count + 1 for _, count in sent]


def test_who_follows_a_market_asks_once_at_each_look_and_once_for_each_block(
    anvil: Anvil, network: Network, client: Chain, tmp_path: Path
) -> None:
    """What `scripts/bench node` measures of aggregators and watchers, and what bounds it."""
    asked: Counter[str] = Counter()
    with counting(network.rpc_url, asked) as url, closing(store_of(network, tmp_path)) as store:
        network = replace(network, rpc_url=url)
        with Chain(network, client.account, tmp_path / "relay.sqlite") as chain:
            daemon = Daemon(Reader(network), store, Metrics(Act, Verdict), chain, poll=60)
            daemon.turn()
            asked.clear()
            for _ in range(PRUNE // 2):
                anvil.mine()
                for _ in range(3):
                    daemon.turn()
            daemon.stop()
    assert daemon.block == client.node.block_number()
    assert asked == {"eth_getBlockByNumber": 3 * (PRUNE // 2), "eth_getLogs": PRUNE // 2}


def test_a_move_whose_receipt_a_node_does_not_have_holds_nothing_up(
    table: Table, network: Network, spoiled: Callable[[Says], Network], tmp_path: Path
) -> None:
    def says(method: str, told: bytes) -> tuple[int, bytes]:
        nothing = json.dumps({"jsonrpc": "2.0", "id": 0, "result": None}).encode()
        return 200, nothing if method == "eth_getTransactionReceipt" else told

    dispute = Dispute(table, "long sum", lying)
    dispute.turns()
    with closing(store_of(network, tmp_path)) as store:
        daemon = Daemon(Reader(spoiled(says)), store, Metrics(Act, Verdict), None, poll=60)
        for _ in range(200):
            with suppress(ChainError):
                daemon.turn()
            if daemon.block == table.client.node.block_number():
                break
        moves = [sent for event, sent in store.moves(dispute.task.hex()) if isinstance(event, Moved)]
        daemon.stop()
    assert moves and set(moves) == {None}


def store_of(network: Network, folder: Path) -> Store:
    return Store(f"sqlite:///{folder / 'a.sqlite'}", network.deployment)
