"""Paid calls without a chain: an endpoint whose chain is events made by hand, and clients that call it over HTTP."""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from eigentensor import merkle
from eigentensor.channel import (
    Deal,
    Key,
    Line,
    Offer,
    Sheet,
    batch_of,
    channel_of,
    events,
    message_of,
    pool_of,
    task_of,
    x402,
)
from eigentensor.channel.calls import CallResponse, Computation, DealRequest, Payment, SignedDeal
from eigentensor.channel.payer import Payer
from eigentensor.channel.state import BatchState
from eigentensor.errors import TaskNotFound
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Program, encode
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Named,
    Node,
    binary,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from eigentensor.program.model import Bounds, Buffer, Kind, Role, Variable
from eigentensor.program.ops import Op
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.store import LocalStore, save_safetensors
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor.task import Event, Place
from eigentensor.task.order import NONE, Domain
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.interface import DrawnShare
from eigentensor_operator.calls.ledger import Ledger
from eigentensor_operator.calls.routes import Where, calls_app
from eigentensor_operator.calls.service import CallService, Rules
from eigentensor_operator.device import Device
from eigentensor_operator.node import NodeServer
from support.stories.operator import PARAMETERS

DOMAIN = Domain(31337, "0x" + "77" * 20)
SIGNER = Key(b"\x11" * 32)
OPERATOR, CLIENT = "0x" + "01" * 20, "0x" + "02" * 20
TOKEN = "0x" + "05" * 20
PRICE, ELEMENTS, ROWS = 10, 8, 32
F32 = DType.FLOAT32


def counting(elements: int = ELEMENTS) -> Program:
    """total ← total + w · x; the output is the new total, too."""
    axis = Axis(0, elements)

    def of(name: str) -> Node:
        return load(Array(name, F32, elements), counter(axis))

    body = to_body(binary(Op.ADD, of("total"), binary(Op.MUL, of("w"), of("x"))), (axis,))
    roles = {"x": Role.INPUT, "w": Role.WEIGHT, "total": Role.STATE}
    buffers = {name: Buffer(role, F32, (elements,), name) for name, role in roles.items()}
    results = {(Kind.OUTPUT, "y"): ("sum", (elements,)), (Kind.STATE, "total"): ("sum", (elements,))}
    return assemble([("sum", body)], buffers, results, max_repeat=4)


def scaling(elements: int = ELEMENTS) -> Program:
    """y = x · x, any number of times."""
    axis = Axis(0, elements)
    x = load(Array("x", F32, elements), counter(axis))
    square = to_body(binary(Op.MUL, x, x), (axis,))
    buffers = {"x": Buffer(Role.INPUT, F32, (elements,), "x")}
    return assemble([("square", square)], buffers, {(Kind.OUTPUT, "y"): ("square", (elements,))}, max_repeat=4)


def recalling() -> Program:
    """Row `position` of the state is w · x from now on; the output is w · the sum of the rows up to it."""
    i, k, row = Axis(0, ELEMENTS), Axis(1, ELEMENTS, True), Axis(1, ROWS, True)
    position = node(Op.VAR, DType.INDEX, arg=Named("position", Bounds(0, ROWS - 1)))
    cell, width = Axis(0, ROWS * ELEMENTS), const(DType.INDEX, ELEMENTS)

    def product(of: str) -> Lowered:
        place = binary(Op.ADD, binary(Op.MUL, counter(i), width), counter(k))
        w, x = load(Array("w", F32, ELEMENTS**2), place), load(Array(of, F32, ELEMENTS), counter(k))
        return to_body(reduction(Op.REDUCE_MULACC, (k,), w, x), (i,))

    is_here = binary(Op.CMPEQ, binary(Op.FLOORDIV, counter(cell), width), position)
    new = load(Array("made", F32, ELEMENTS), binary(Op.FLOORMOD, counter(cell), width))
    rows = node(Op.WHERE, F32, is_here, new, load(Array("rows", F32, ROWS * ELEMENTS), counter(cell)))
    read = load(Array("kept", F32, ROWS * ELEMENTS), binary(Op.ADD, binary(Op.MUL, counter(row), width), counter(i)))
    read_to = (binary(Op.ADD, position, const(DType.INDEX, 1)),)
    calls = [
        ("made", product("x")), ("kept", to_body(rows, (cell,))),
        ("sum", to_body(reduction(Op.REDUCE_ADD, (row,), read, extents=read_to), (i,))), ("y", product("sum")),
    ]  # fmt: skip
    shapes = {
        "x": (Role.INPUT, (ELEMENTS,)),
        "w": (Role.WEIGHT, (ELEMENTS,) * 2),
        "rows": (Role.STATE, (ROWS, ELEMENTS)),
    }
    buffers = {name: Buffer(role, F32, shape, name) for name, (role, shape) in shapes.items()}
    results = {(Kind.OUTPUT, "y"): ("y", (ELEMENTS,)), (Kind.STATE, "rows"): ("kept", (ROWS, ELEMENTS))}
    return assemble(calls, buffers, results, [Variable("position", 0, ROWS - 1, 1)], max_repeat=4)


def ones(value: float) -> np.ndarray[Any, Any]:
    return np.full(ELEMENTS, value, np.float32)


@dataclass
class Programs:
    """Two programs that stay warm, by their names."""

    served: dict[str, ServedProgram]

    @property
    def listed(self) -> dict[bytes, int]:
        return {one.root: one.repeat for one in self.served.values()}

    def close(self) -> None:
        for one in self.served.values():
            one.execution.close()


def programs(folder: Path, *, is_warm: bool = True, elements: int = ELEMENTS, device: Device | None = None) -> Programs:
    """`scaling`, which has no states, and `counting`, whose weights are threes; warm, or when they are called."""
    within, threes = replace(limits(1 << 30, 60), threads=1), {"w": np.full(elements, 3, np.float32)}
    save_safetensors(folder / "w", threes)
    made = {}
    for name, program, weights in (
        ("scaling", scaling(elements), None),
        ("counting", counting(elements), folder / "w"),
    ):
        root = NONE if weights is None else merkle.role_root(program, Role.WEIGHT, threes)
        execution = device.served(program, weights, 60) if device else WarmExecution(program, weights, within)
        if is_warm:
            execution.warm()
        made[name] = ServedProgram(merkle.program_root(encode(program)), root, program, execution, PRICE, 4)
    return Programs(made)


def offered(listed: Mapping[bytes, int], **change: Any) -> Offer:
    values: dict[str, Any] = {
        "operator": OPERATOR, "signer": SIGNER.address, "nonce": 1, "max_price": 100, "check_price": 5, "most": 10**9,
        "risk_each": 10**6, "risk_all": 10**9, "check_rate": 10**16, "verifiers": 1, "exec": 4, "epoch": 50, "tail": 3,
        "programs": merkle.programs_root(listed),
    }  # fmt: skip
    return Offer(**values | change)


@dataclass
class HandChain:
    """A chain of events that a test makes, given to a service as they come."""

    service: CallService
    block: int = 100
    index: int = 0
    #: Shares that accounts may see, as a machine that follows the chain would say.
    shares: dict[tuple[bytes, int, str], DrawnShare] = field(default_factory=dict)

    def show(self, kind: type[Event], *values: Any) -> None:
        """An event in the block at hand."""
        self.index += 1
        tx = self.index.to_bytes(32, "big")
        self.service.observe(kind(Place(self.block, self.index, self.block.to_bytes(32, "big"), tx), *values))

    def mine(self, blocks: int = 1) -> None:
        """The block at hand is over, and so many after it."""
        self.service.advance(self.block)
        self.block += blocks
        self.service.advance(self.block)
        self.block += 1

    def begin(self, pool: bytes, number: int, epoch: int = 50) -> None:
        commit_by = self.block + epoch
        self.show(events.Begun, pool, number, batch_of(pool, number), commit_by, commit_by + 1000)

    def open(self, deal: Deal, deposit: int) -> bytes:
        channel = channel_of(DOMAIN, deal)
        self.show(events.Opened, channel, deal.pool, deal.client, deal, deposit)
        return channel

    def commit(self, pool: bytes, number: int, sheets: tuple[Sheet, ...]) -> tuple[Line, ...]:
        """What a commit of these sheets shows."""
        batch, offset, lines = batch_of(pool, number), 0, []
        for position, sheet in enumerate(sheets):
            channel = channel_of(DOMAIN, sheet.deal)
            known = self.service.channel_life(channel)
            line = sheet.line(DOMAIN, known.count, known.paid, offset)
            offset += line.count
            lines.append(line)
            self.show(events.Lined, batch, position, line)
        root = merkle.tree_root([line.hash() for line in lines])
        amount = sum(line.amount for line in lines)
        self.show(events.Committed, batch, root, len(lines), offset, amount)
        return tuple(lines)

    def close(self, pool: bytes, number: int, state: BatchState = BatchState.FINAL) -> None:
        self.show(events.Closed, batch_of(pool, number), state, 0, 0)

    def drawn(self, batch: bytes, share: int, account: str) -> DrawnShare:
        """See `Draws`."""
        try:
            return self.shares[batch, share, account]
        except KeyError:
            raise TaskNotFound("no such share") from None


@dataclass
class Endpoint:
    """A service with its HTTP server, and its chain."""

    service: CallService
    chain: HandChain
    programs: Programs
    url: str
    pool: bytes
    offer: Offer
    http: httpx.Client

    def client(self, seed: int = 0x22, **options: Any) -> "HttpClient":
        """A client whose channel is open, and served from now on."""
        client = HttpClient(self.http, Key(bytes([seed]) * 32), self.offer, self.programs, **options)
        self.chain.open(client.deal, client.payer.deposit)
        self.chain.mine()
        return client


@contextmanager
def serving(
    folder: Path, made: Programs, rules: Rules | None = None, *, chain: bool = True, **change: Any
) -> Iterator[Endpoint]:
    """An endpoint whose ledger lies in the folder; with `chain`, its offer stands and batch 1 is begun."""
    ledger = Ledger(folder / "calls.sqlite")
    rules = rules or Rules(waiting=512, each=256)
    parameters = PARAMETERS
    service = CallService(
        DOMAIN, parameters, SIGNER, ledger, LocalStore(folder / "shelf"), list(made.served.values()), rules
    )
    offer = offered(made.listed, **change)
    pool = service.offer(offer, made.listed)
    hand = HandChain(service)
    where = Where(DOMAIN, TOKEN, 30, LocalStore(folder / "store"))
    server = NodeServer(calls_app(service, where, hand), "127.0.0.1", 0, service.loop)
    if chain:
        hand.show(events.Offered, pool, OPERATOR, offer)
        hand.begin(pool, 1)
        hand.mine()
    try:
        url = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=url) as http:
            yield Endpoint(service, hand, made, url, pool, offer, http)
    finally:
        server.stop()
        service.close()
        ledger.close()


class HttpClient:
    """One channel's client: signs what it owes, and takes only what the operator signed."""

    def __init__(
        self,
        http: httpx.Client,
        key: Key,
        offer: Offer,
        made: Programs,
        deposit: int = 10**6,
        most: int = 10**6,
        deal: Deal | None = None,
    ) -> None:
        self.key, self.made = key, made
        pool = pool_of(DOMAIN, offer)
        self.deal = deal or Deal(pool, CLIENT, key.address, 1, most, 0, 10**6)
        self.payer = Payer.of(DOMAIN, offer, self.deal, deposit)
        self.http = http
        self.lock = threading.Lock()
        self.responses: list[CallResponse] = []

    @property
    def path(self) -> str:
        return f"/v1/channels/{self.payer.channel.hex()}/calls"

    def computation(self, name: str = "scaling", **values: Any) -> Computation:
        served = self.made.served[name]
        return Computation(served.root, served.weights, **values)

    def payment(
        self, computation: Computation, inputs: Mapping[str, Any], price: int = PRICE, salt: int = 7
    ) -> Payment:
        """The next call's, signed."""
        program = next(one.program for one in self.made.served.values() if one.root == computation.program)
        root = merkle.role_root(program, Role.INPUT, inputs)
        task = task_of(DOMAIN, computation.order(self.deal, self.payer.channel, self.payer.next, salt, root))
        self.payer, voucher = self.payer.called(task, price)
        return Payment(salt, root, voucher, self.key.sign(message_of(DOMAIN, voucher)))

    def post(self, computation: Computation, payment: Payment | None, tensors: Mapping[str, Any]) -> httpx.Response:
        headers = {} if payment is None else {x402.SIGNATURE: x402.signature(payment, {"scheme": x402.SCHEME})}
        return self.http.post(
            self.path, params=tuple(computation.query()), content=dump_safetensors(tensors), headers=headers
        )

    def receive(self, response: httpx.Response, program: Program) -> dict[str, Any]:
        """The outputs of an answer that the payer takes."""
        assert response.status_code == 200, response.text
        answer = x402.read_response(response.headers[x402.RESPONSE])
        outputs = {name: array for name, (_, array) in parse_flat(response.content).items()}
        root = merkle.outputs_root(merkle.kind_root(program, Kind.OUTPUT, outputs), self.states_root(program, answer))
        self.payer = self.payer.received(answer, root)
        self.responses.append(answer)
        return outputs

    @staticmethod
    def states_root(program: Program, answer: CallResponse) -> bytes:
        return answer.states if program.new_states else merkle.bindings_root({})

    def call(self, value: float = 2) -> dict[str, Any]:
        """x · x, paid."""
        x = {"x": ones(value)}
        work = self.computation()
        return self.receive(self.post(work, self.payment(work, x), x), self.made.served["scaling"].program)

    def request_deal(self, request: DealRequest) -> SignedDeal:
        response = self.http.post("/v1/deals", json=request.to_json())
        assert response.status_code == 200, response.text
        return SignedDeal.from_json(response.json())


def main(folder: Path) -> None:
    """An endpoint in a process of its own, until it is killed: says its URL. The first one shows itself a chain with an
    open channel for each of two keys, of which later ones read in the ledger."""
    is_first = not (folder / "calls.sqlite").exists()
    with serving(folder, programs(folder, is_warm=False), chain=is_first) as endpoint:
        if is_first:
            for seed in (0x22, 0x33):
                endpoint.client(seed)
        else:
            endpoint.service.advance(120)
        sys.stdout.write(f"{endpoint.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
