"""An operator of paid calls as small as it can be: the SDK's `Payee` behind HTTP, in memory, one call after the other.

A second implementation of what an operator serves, beside the real one: what a client does with one it does with the
other. It can be told to lie.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eigentensor import merkle
from eigentensor.channel import (
    CallReceipt,
    Deal,
    Key,
    Offer,
    Sheet,
    channel_of,
    is_signed_by,
    message_of,
    pool_of,
    task_of,
    x402,
)
from eigentensor.channel.calls import (
    CallResponse,
    ChannelStatus,
    Computation,
    DealRequest,
    PaidCall,
    PaidCalls,
    Payment,
    ProgramQuote,
    Quote,
    Quotes,
    SignedDeal,
    SignedVoucher,
)
from eigentensor.channel.payee import Payee
from eigentensor.channel.shown import CallsRequest
from eigentensor.errors import CallConflict, CallRefused, ChannelClosed, EigenTensorError
from eigentensor.keccak import keccak
from eigentensor.program import Kind, Program, Role
from eigentensor.program.binding import Results, bind, shaped
from eigentensor.reexecution.inputs import load_role
from eigentensor.reference import execute
from eigentensor.store import GatewayClient
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor.task import NONE, Domain
from eigentensor.web.problems import MEDIA_TYPE, of_error
from eigentensor.web.server import listen, server
from eigentensor.wire import unhex

Tensors = Mapping[str, np.ndarray[Any, Any]]
#: Status, headers and body of a response.
Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Served:
    """A program that it executes, and for which price."""

    program: Program
    price: int
    repeat: int = 1
    is_warm: bool = True


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was executed, and its response."""

    computation: Computation
    payment: Payment
    response: CallResponse
    outputs: bytes


class ToyOperator:
    """Of one pool. `number` is the batch that its receipts name; `block` the newest one, as far as it knows."""

    def __init__(self, domain: Domain, offer: Offer, signer: Key, programs: Mapping[bytes, Served]) -> None:
        self.domain, self.offer, self.signer, self.programs = domain, offer, signer, dict(programs)
        self.pool = pool_of(domain, offer)
        self.number, self.commit_by, self.open_by = 1, 1 << 40, 1 << 40
        self.deals: dict[bytes, Deal] = {}
        self.channels: dict[bytes, Payee] = {}
        self.done: dict[bytes, list[Done]] = {}
        self.states: dict[bytes, Tensors] = {}
        self.refuses: set[bytes] = set()
        """Inputs of calls that it does not take."""
        self.lie: Callable[[Results], Results] = lambda results: results
        """What it says that a program gave."""
        self.wrong: Callable[[int, bytes], bytes] = lambda index, root: root
        """What it signs of a call instead of its outputs root."""
        self.concludes = True
        """Whether it signs last vouchers."""
        self.concluded: set[bytes] = set()
        self.gateway: GatewayClient | None = None
        """Where it finds weights and states that it does not have."""
        self.deposits: Callable[[bytes], int] = lambda channel: 0
        """The deposit of a channel that was opened on chain; 0: it was not."""
        self._lock = threading.Lock()

    # ---- Calls ----

    def answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request, whole, after the other."""
        with self._lock:
            try:
                return self._answer(method, path, query, headers, body)
            except EigenTensorError as error:
                problem = of_error(error)
                return problem["status"], {"Content-Type": MEDIA_TYPE}, json.dumps(problem).encode()

    def _answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Answer:
        parts = path.strip("/").split("/")
        if (method, parts) == ("GET", ["v1", "deals"]):
            return 200, {}, json.dumps(Quotes((self.quote(),)).to_json()).encode()
        if (method, parts) == ("POST", ["v1", "deals"]):
            return 200, {}, json.dumps(self.deal(DealRequest.from_json(json.loads(body))).to_json()).encode()
        if method == "GET" and len(parts) == 3 and parts[1] == "channels":
            return 200, {}, json.dumps(self.status(bytes.fromhex(parts[2])).to_json()).encode()
        if method == "GET" and len(parts) == 4 and parts[3] == "calls":
            return 200, {}, json.dumps(self.shown(bytes.fromhex(parts[2]), dict(parse_qsl(query))).to_json()).encode()
        if method == "POST" and len(parts) == 4 and parts[3] == "conclusion":
            return 200, {}, json.dumps(self.conclude(SignedVoucher.from_json(json.loads(body))).to_json()).encode()
        if method == "POST" and len(parts) == 4 and parts[3] == "calls":
            computation = Computation.of_query(parse_qsl(query, keep_blank_values=True))
            done, payee = self._call(bytes.fromhex(parts[2]), computation, headers, body)
            paid = x402.response(self.domain, payee.deal.payer, done.payment.voucher.amount, done.response)
            return 200, {x402.RESPONSE: paid}, done.outputs
        return 404, {}, b""

    def quote(self) -> Quote:
        """What it offers."""
        programs = tuple(ProgramQuote(root, s.repeat, s.price, s.is_warm) for root, s in self.programs.items())
        domain, offer = self.domain, self.offer
        return Quote(domain.chain_id, domain.market, self.pool, offer, self.number, self.commit_by, programs, 1 << 20)

    def deal(self, request: DealRequest) -> SignedDeal:
        """Any deal that its offer allows."""
        parties = (request.pool, request.client, request.payer)
        deal = Deal(*parties, len(self.deals), request.most, request.value_at_risk, self.open_by)
        if request.pool != self.pool or request.value_at_risk > self.offer.risk_each:
            raise CallRefused("no such deal is made", fix="Ask for one of the pool.")
        channel = channel_of(self.domain, deal)
        self.deals[channel] = deal
        return SignedDeal(deal, self.signer.sign(message_of(self.domain, deal)))

    def open(self, channel: bytes, deposit: int) -> None:
        """The channel is open on chain."""
        self.channels[channel] = Payee.of(self.domain, self.offer, self.deals[channel], deposit)
        self.done[channel] = []

    def status(self, channel: bytes) -> ChannelStatus:
        """Where a channel stands."""
        payee = self._known(channel)
        count = payee.newest.count if payee.newest else 0
        return ChannelStatus(channel, payee.count, count, payee.left, payee.newest)

    def shown(self, channel: bytes, asked: Mapping[str, str]) -> PaidCalls:
        """The calls of a channel, three at a time, to its payer."""
        first, payer = int(asked["first"]), self._known(channel).deal.payer
        request = CallsRequest(channel, first)
        if not is_signed_by(payer, keccak(request.message(self.domain)), unhex(asked["signature"])):
            raise CallRefused("the payer did not sign", fix="Sign.")
        some = self.done[channel][first : first + 3]
        calls = (PaidCall(urlencode(one.computation.query()), one.payment, one.response) for one in some)
        return PaidCalls(channel, tuple(calls))

    def conclude(self, last: SignedVoucher) -> SignedVoucher:
        """The last voucher of a channel, signed."""
        channel = last.voucher.channel
        if not self.concludes:
            raise CallRefused("no channel is concluded here", fix="Leave it.")
        self._known(channel).check_last(last.voucher, last.signature)
        self.concluded.add(channel)
        return SignedVoucher(last.voucher, self.signer.sign(message_of(self.domain, last.voucher)))

    def _known(self, channel: bytes) -> Payee:
        if channel not in self.channels:
            if not (deposit := self.deposits(channel)):
                raise ChannelClosed("no such channel is open")
            self.open(channel, deposit)
        return self.channels[channel]

    def _call(
        self, channel: bytes, computation: Computation, headers: Mapping[str, str], body: bytes
    ) -> tuple[Done, Payee]:
        payee = self._known(channel)
        payment, done = x402.read_signature(headers[x402.SIGNATURE]), self.done[channel]
        index = payment.voucher.count - 1
        if index < len(done) and done[index].payment == payment:
            return done[index], payee
        if index < len(done):
            raise CallConflict(f"call {index} is another one", fix="Go on from the newest.")
        if channel in self.concluded:
            raise ChannelClosed("the channel is concluded")
        served = self._served(computation)
        names = served.program.named(Role.INPUT)
        inputs = {name: tensor for name, tensor in (parse_flat(body) if body else {}).items() if name in names}
        if payment.inputs != (_root(inputs) if names else NONE):
            raise CallRefused("the inputs have another root", fix="Send those.")
        order = task_of(self.domain, computation.order(payee.deal, channel, index, payment.salt, payment.inputs))
        taken = payee.taken(payment, order, served.price * computation.repeat)
        if body in self.refuses:
            raise CallRefused(f"call {index} is not taken", fix="Ask again.")
        results = self._execute(served, computation, body)
        self.channels[channel], receipt = taken.executed(self.wrong(index, self._root(served, results)), self.number)
        done.append(Done(computation, payment, self._response(served, receipt, results), _outputs(served, results)))
        return done[index], payee

    def _served(self, computation: Computation) -> Served:
        served = self.programs.get(computation.program)
        if served is None:
            raise CallRefused("the program is not executed", fix="See the quotes.")
        return served

    def _execute(self, served: Served, computation: Computation, body: bytes) -> Results:
        program = served.program
        brought = shaped(program, parse_flat(body) if body else {})
        states = {name: value for name, value in brought.items() if name in program.named(Role.STATE)}
        if not states:
            states = dict(self._kept(program, Role.STATE, computation.states))
        elif merkle.role_root(program, Role.STATE, states) != computation.states:
            raise CallRefused("the states have another root", fix="Send those.")
        tensors = {**brought, **self._kept(program, Role.WEIGHT, computation.weights), **states}
        bind(program, tensors, computation.variables, computation.repeat)
        results = self.lie(execute(program, tensors, computation.variables, computation.repeat))
        if results.states:
            self.states[merkle.kind_root(program, Kind.STATE, results.states)] = results.states
        return results

    def _kept(self, program: Program, role: Role, root: bytes) -> Tensors:
        if root == NONE or root in self.states:
            return self.states.get(root, {})
        if self.gateway is None:
            raise CallRefused(f"nobody has {root.hex()} here", fix="Upload it.")
        return load_role(self.gateway.fetch(root), program, role)

    def _root(self, served: Served, results: Results) -> bytes:
        return merkle.results_root(served.program, results)

    def _response(self, served: Served, receipt: CallReceipt, results: Results) -> CallResponse:
        states = merkle.kind_root(served.program, Kind.STATE, results.states) if results.states else NONE
        return CallResponse(receipt, self.signer.sign(message_of(self.domain, receipt)), states)

    # ---- Batches ----

    def sheets(self) -> list[Sheet]:
        """What a commit brings of all channels; from now on receipts name the next batch."""
        with self._lock:
            self.number += 1
            served = [payee for name, payee in self.channels.items() if name not in self.concluded]
            return [sheet for payee in served if (sheet := payee.sheet())]

    def committed(self, sheets: list[Sheet]) -> None:
        """They stand in a batch."""
        for sheet in sheets:
            channel = channel_of(self.domain, sheet.deal)
            self.channels[channel] = self.channels[channel].committed(sheet.count, sheet.amount)

    def forget(self, channel: bytes, acked: int) -> Sheet:
        """A sheet with the voucher of an earlier call: what a liar commits to leave calls out."""
        done, payee = self.done[channel], self.channels[channel]
        replayed = Payee.of(self.domain, self.offer, payee.deal, payee.deposit)
        for one in done[:acked]:
            replayed = replayed.taken(one.payment, one.response.receipt.order, 0)
            replayed, _ = replayed.executed(one.response.receipt.outputs_root, self.number)
        sheet = replayed.sheet()
        assert sheet is not None
        return sheet

    # ---- HTTP ----

    def transport(self) -> httpx.MockTransport:
        """Requests without a network."""

        def respond(request: httpx.Request) -> httpx.Response:
            query = request.url.query.decode()
            status, headers, body = self.answer(
                request.method, request.url.path, query, request.headers, request.content
            )
            return httpx.Response(status, headers=headers, content=body)

        return httpx.MockTransport(respond)

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Serves over loopback; its URL, until the block ends."""

        async def respond(request: Request) -> Response:
            body = await request.body()
            arguments = (request.method, request.url.path, request.url.query, request.headers, body)
            status, headers, content = await run_in_threadpool(self.answer, *arguments)
            return Response(content, status, headers)

        app = Starlette(routes=[Route("/{path:path}", respond, methods=["GET", "POST"])])
        running = server(app)
        with listen("127.0.0.1", 0) as listening:
            thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                running.should_exit = True
                thread.join()


def tampered(sheet: Sheet) -> Sheet:
    """The same with another result of the last call of its tail."""
    *others, last = sheet.tail
    return replace(sheet, tail=(*others, replace(last, result=b"\xee" * 32)))


def _outputs(served: Served, results: Results) -> bytes:
    dtypes = {name: served.program.parameter(r.buffer).dtype for name, r in served.program.outputs.items()}
    return dump_safetensors(results.outputs, dtypes)


def _root(flat: Mapping[str, Any]) -> bytes:
    return merkle.bindings_root({name: merkle.array_root(*tensor) for name, tensor in flat.items()})
