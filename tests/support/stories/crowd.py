"""A market of a thousand operators and many tasks, told by the logs of a chain that nobody executed.

Every block is a function of its number, so that the history of a million tasks takes no memory and no disk. Orders have
their true uuids; what operators say beside the chain their signers sign.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, is_dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

from eigentensor.abi import encode, type_of
from eigentensor.addresses import to_checksum_address
from eigentensor.chain import Changes, Deployment, Head, Network, Reader
from eigentensor.chain.contracts import Logged, abi, events_of
from eigentensor.chain.keys import account_of
from eigentensor.dispute import Phase, Position, Reason
from eigentensor.economics import WAD
from eigentensor.task import (
    NONE,
    Accepted,
    Answered,
    Cancelled,
    Cause,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Ended,
    Event,
    Expired,
    Failed,
    GameEnded,
    Moved,
    Opened,
    OperatorJoined,
    Order,
    Place,
    Posted,
    Revealed,
    SeatsSet,
    Seeded,
    Settled,
    Signer,
    SignerSet,
    Slashed,
    order_uuid,
)
from eigentensor.task.events import Locked, Unlocked
from support.stories.aggregator import PARAMETERS

#: The block after the deployment, in which all operators join.
FIRST = 1
#: Blocks from a task's order to the last of what may happen to it.
LONGEST = 64
_EXEC = 20
_GWEI = 10**9
_SOURCES = {"task_market": "TaskMarket", "service_manager": "ServiceManager", "dispute_game": "DisputeGame"}


def _name(*words: object) -> bytes:
    return sha256(" ".join(map(str, words)).encode()).digest()


def _address(*words: object) -> str:
    return to_checksum_address(_name(*words)[:20])


def deployment() -> Deployment:
    """A market each of whose contracts has an address of its own."""
    contracts = ("taskMarket", "serviceManager", "disputeGame", "referee", "bounty", "channels", "channelsGame")
    core = ("allocationManager", "delegationManager", "strategyManager", "strategy")
    camel = {"".join([w[0], *map(str.title, w[1:])]): v for n, v in asdict(PARAMETERS).items() for w in [n.split("_")]}
    return Deployment.from_json(
        {
            "chainId": 31337, "block": FIRST, "burn": _address("burn"),
            **{name: _address(name) for name in contracts}, "core": {name: _address(name) for name in core},
            "token": {"address": _address("token"), "symbol": "T", "decimals": 18}, "parameters": camel,
        }
    )  # fmt: skip


@dataclass(frozen=True)
class Crowd:
    """`tasks` in all, so many in each block, of `operators`. Some clients post more than others, one a fifth of all."""

    tasks: int
    operators: int = 1000
    per_block: int = 20

    @cached_property
    def deployment(self) -> Deployment:
        """The market."""
        return deployment()

    @property
    def head(self) -> int:
        """The newest block: the last tasks were just posted."""
        return FIRST + -(-self.tasks // self.per_block)

    @property
    def programs(self) -> int:
        """How many different ones are executed."""
        return self.operators // 2

    def operator(self, number: int) -> str:
        """The address of an operator."""
        return _operator(number % self.operators)

    def signer(self, number: int) -> Signer:
        """The account that signs for it."""
        return account_of(_name("signer", number % self.operators).hex())

    def client(self, task: int) -> str:
        """Who posts a task."""
        drawn = int.from_bytes(_name("client", task)[:4])
        return _client(0 if drawn % 5 == 0 else drawn % (2 * self.operators))

    @cached_property
    def client_of_many(self) -> str:
        """Who posts a fifth of all tasks."""
        return _client(0)

    @cached_property
    def client_of_few(self) -> str:
        """Who posts as many as most clients do."""
        return next(client for task in range(self.tasks) if (client := self.client(task)) != self.client_of_many)

    def executor(self, task: int) -> int:
        """Which operator accepts a task, if one does."""
        return int.from_bytes(_name("executor", task)[:4]) % self.operators

    def program(self, task: int) -> bytes:
        """The root of what a task executes."""
        return _name("program", task % self.programs)

    def order(self, task: int) -> Order:
        """The order of a task."""
        return Order(
            client=self.client(task), nonce=task, semantics=1, program=self.program(task), inputs=_name("in", task),
            weights=NONE, states=NONE, variables=NONE, repeat=1, min_price=5 * _GWEI, max_price=(9 + task % 91) * _GWEI,
            ramp_start=0, ramp_length=0, check_fee=10 * _GWEI, check_rate=WAD // 5, verifiers=1, value_at_risk=0,
            exec=_EXEC, accept_by=self.block_of(task) + _EXEC, operators=NONE,
        )  # fmt: skip

    def uuid(self, task: int) -> bytes:
        """The name of a task."""
        return order_uuid(self.order(task), self.deployment.domain)

    def block_of(self, task: int) -> int:
        """In which block it is posted."""
        return FIRST + 1 + task // self.per_block

    # ---- The chain ----

    def logs(self, first: int, last: int) -> Iterator[str]:
        """The logs of these blocks as JSON-RPC has them."""
        happened: dict[int, list[Event]] = defaultdict(list)
        if first <= FIRST <= last:
            happened[FIRST] += self._joined()
        for block in range(max(first, FIRST + 1), min(last, self.head) + 1):
            if block % PARAMETERS.grid == 0 and block > FIRST + PARAMETERS.lag + 2:
                seed = block - PARAMETERS.confirmations
                happened[block].append(Seeded(_place(block), seed, _name("mix", seed)))
        begun = range(self._first_task(first - LONGEST), self._first_task(last + 1))
        for task in begun:
            for event in self.life(task):
                if first <= event.place.block <= min(last, self.head):
                    happened[event.place.block].append(event)
        addresses = {kind: getattr(self.deployment, field).lower() for field, kind in _SOURCES.items()}
        for block in sorted(happened):
            for index, event in enumerate(happened[block]):
                yield _log(addresses, block, index, event)

    def _first_task(self, block: int) -> int:
        """The number of the first task that is posted in a block or behind it."""
        return min(self.tasks, max(0, block - FIRST - 1) * self.per_block)

    def _joined(self) -> Iterator[Event]:
        for number in range(self.operators):
            operator, place = self.operator(number), _place(FIRST)
            yield OperatorJoined(place, operator)
            yield SignerSet(place, operator, self.signer(number).address, 10**24, 10**24)
            yield SeatsSet(place, operator, 2)

    def life(self, task: int) -> Iterator[Event]:
        """What happens to a task: one in ten is answered by a verifier, one in fifty each expires, fails or is taken
        back, one in five hundred is convicted."""
        uuid, kind, block = self.uuid(task), task % 500, self.block_of(task)
        order, who = self.order(task), self.executor(task)
        executor = self.operator(who)
        yield Posted(_place(block), uuid, order.client, order)
        if kind % 50 == 1:
            yield Expired(_place(block + _EXEC), uuid)
            return
        if kind % 50 == 2:
            yield Cancelled(_place(block + 3), uuid)
            return
        taken = block + 1 + who % 3
        yield Accepted(_place(taken), uuid, executor, order.min_price + task % 4 * _GWEI, 52 * _GWEI)
        yield Locked(_place(taken), uuid, executor, 100, taken + 200)
        if kind % 50 == 3:
            yield Failed(_place(taken + _EXEC + 1), uuid, order.escrow, 2 * _GWEI)
            yield Unlocked(_place(taken + 40), uuid)
            return
        done = taken + 1 + task % 7
        root, over = _name("root", task), done + 40
        yield Committed(_place(done), uuid, _name("commitment", task))
        verifier = self.operator(who + 1)
        if kind % 10 == 4:
            yield Answered(_place(done + 6), uuid, 0, verifier, _name("answer", task))
        yield Revealed(_place(done + 12), uuid, 0, root)
        if kind % 10 == 4:
            yield Revealed(_place(done + 14), uuid, 1, root)
        if kind == 5:
            yield from _convicted(task, uuid, executor, done + 20)
        else:
            yield Closed(_place(over), uuid, order.min_price, order.escrow - order.min_price)
            yield Unlocked(_place(over), uuid)
        if kind % 10 == 4:
            yield Settled(_place(over + 1), uuid, 1, verifier, 20 * _GWEI)


def _convicted(task: int, uuid: bytes, executor: str, block: int) -> Iterator[Event]:
    challenger, game = _address("challenger", task % 7), task + 1
    position = Position(uuid, executor, challenger, Phase.PUBLISH, block, 80, 80)
    yield Opened(_place(block), uuid, game, challenger, position)
    yield Challenged(_place(block), uuid, game, challenger, 24 * _GWEI)
    for step, phase in enumerate((Phase.CALL, Phase.TRACE, Phase.LEAF), 1):
        moved = replace(position, phase=phase, since=block + step)
        yield Moved(_place(block + step), uuid, game, moved, _name("data", task, step))
    yield Ended(_place(block + 5), uuid, game, True, Reason.VERDICT)
    yield GameEnded(_place(block + 5), uuid, game, challenger, True)
    yield Convicted(_place(block + 5), uuid, Cause.VERDICT, challenger, 19 * _GWEI)
    yield Slashed(_place(block + 6), uuid, game, 100, challenger)


def _place(block: int) -> Place:
    """The place of an event within its block is where its log stands."""
    return Place(block, 0, b"", b"")


@lru_cache(None)
def _operator(number: int) -> str:
    return _address("operator", number)


@lru_cache(None)
def _client(number: int) -> str:
    return _address("client", number)


# ---- Logs ----


def _known() -> Iterator[tuple[str, tuple[str, Logged]]]:
    for source in _SOURCES.values():
        for name, logged in events_of(abi(source)).items():
            yield name, (source, logged)


_EVENTS = dict(_known())


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


@lru_cache(None)
def _layout(name: str) -> tuple[str, bytes, list[tuple[str, str]], list[tuple[str, str]]]:
    """An event's contract and topic; names and types of what stands in topics, and of the rest."""
    source, logged = _EVENTS[name]
    inputs = [(bool(one["indexed"]), _snake(one["name"]), type_of(one)) for one in logged.entry["inputs"]]
    indexed, others = ([(n, t) for is_indexed, n, t in inputs if is_indexed is wanted] for wanted in (True, False))
    return source, logged.topic, indexed, others


def _plain(value: Any) -> Any:
    if isinstance(value, Order):
        return value.as_tuple()
    if isinstance(value, Position):
        return value.pack()
    return astuple(value) if is_dataclass(value) and not isinstance(value, type) else value


def _log(addresses: Mapping[str, str], block: int, index: int, event: Event) -> str:
    source, topic, indexed, others = _layout(type(event).__name__)
    topics = [topic, *(encode([kind], [getattr(event, name)]) for name, kind in indexed)]
    data = encode([kind for _, kind in others], [_plain(getattr(event, name)) for name, _ in others])
    shown = ",".join(f'"0x{one.hex()}"' for one in topics)
    return (
        f'{{"address":"{addresses[source]}","topics":[{shown}],"data":"0x{data.hex()}","blockNumber":"{block:#x}",'
        f'"logIndex":"{index:#x}","blockHash":"{_hash(block)}","transactionHash":"{_transaction(block, index)}",'
        f'"transactionIndex":"{index:#x}","removed":false}}'
    )


def _hash(block: int) -> str:
    return f"0x{block + (1 << 200):064x}"


def _transaction(block: int, index: int) -> str:
    return f"0x{(block << 64) + (1 << 160) + index:064x}"


# ---- A node ----

_AMOUNT = "0x" + 8 * f"{10**19:064x}"


def answer(crowd: Crowd, method: str, parameters: list[Any], most: int) -> Any:
    """What a node of this chain says. Raises ValueError where that would be more than `most` logs."""
    if method == "eth_getLogs":
        (asked,) = parameters
        first, last = (int(asked[side], 16) for side in ("fromBlock", "toBlock"))
        logs = list(crowd.logs(first, last))
        if len(logs) > most:
            raise ValueError(f"query returned more than {most} results")
        return logs
    if method == "eth_getBlockByNumber":
        words = {"latest": crowd.head, "earliest": 0, "finalized": crowd.head}
        number = words[parameters[0]] if parameters[0] in words else int(parameters[0], 16)
        hashes = {"hash": _hash(number), "parentHash": _hash(number - 1)}
        return {"number": hex(number), "timestamp": hex(12 * number), **hashes}
    if method == "eth_getTransactionReceipt":
        (transaction,) = parameters
        block = int(transaction, 16) >> 64 & (1 << 64) - 1
        return {
            "status": "0x1", "blockNumber": hex(block), "gasUsed": "0x10000", "blockHash": _hash(block),
            "transactionHash": transaction, "from": _address("challenger", 1).lower(), "logs": [],
        }  # fmt: skip
    constants = {
        "eth_chainId": "0x7a69",
        "eth_getCode": "0x60",
        "eth_blockNumber": hex(crowd.head),
        "eth_call": _AMOUNT,
    }
    return constants[method]


def _answered(crowd: Crowd, asked: dict[str, Any], most: int) -> str:
    """The answer to a question, in JSON; logs are that already."""
    number = asked["id"]
    try:
        said = answer(crowd, asked["method"], asked["params"], most)
    except ValueError as error:
        return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32602, "message": str(error)}})
    text = f"[{','.join(said)}]" if asked["method"] == "eth_getLogs" else json.dumps(said)
    return f'{{"jsonrpc":"2.0","id":{number},"result":{text}}}'


def node_of(crowd: Crowd, most: int) -> ThreadingHTTPServer:
    """A node of this chain on loopback, which answers with at most so many logs. It does not serve yet."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            many = [_answered(crowd, one, most) for one in asked] if isinstance(asked, list) else None
            body = _answered(crowd, asked, most) if many is None else f"[{','.join(many)}]"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server


@contextmanager
def served(crowd: Crowd, most: int) -> Iterator[Network]:
    """A network whose node is such a one, as long as the block runs."""
    server = node_of(crowd, most)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Network("crowd", f"http://127.0.0.1:{server.server_address[1]}", "", crowd.deployment)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def told(crowd: Crowd, most: int) -> list[Changes]:
    """The whole history, as a reader hears it from such a node."""
    with served(crowd, most) as network:
        history, heads, read = Reader(network).history, list[Head](), list[Changes]()
        while not read or not read[-1].complete:
            read.append(history.changes(heads))
            heads += read[-1].heads
        return read


def serve_node(crowd: Crowd, most: int, port: Connection) -> None:
    """The same in a process of its own; tells its port."""
    server = node_of(crowd, most)
    port.send((server.server_address[1], None))
    server.serve_forever()
