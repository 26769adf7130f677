"""Paid calls over HTTP: prices, deals, calls, and what drawn verifiers are shown. Refusals are problems (RFC 9457).

The wire of a call is `eigentensor.channel.calls`' and `x402`'s; this maps it to the service, and knows no rules.
"""

import asyncio
import re
import time
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from eigentensor import merkle
from eigentensor.channel import LineProof, open_line, recover, x402
from eigentensor.channel.calls import Computation, DealRequest, PaidCalls, Quotes, SignedVoucher
from eigentensor.channel.shown import CallsRequest, ShareRequest, ShownCall, ShownShare
from eigentensor.errors import BlobNotFound, CallConflict, CallRefused, ChannelClosed, EigenTensorError, TaskNotFound
from eigentensor.keccak import keccak
from eigentensor.store import LocalStore
from eigentensor.task.order import Domain
from eigentensor.version import VERSION
from eigentensor.web import problems
from eigentensor.web.limits import BodyLimit, address
from eigentensor.wire import unhex
from eigentensor_operator.calls.channels import Answer, ServedChannel, ServedProgram
from eigentensor_operator.calls.inputs import Inputs
from eigentensor_operator.calls.interface import DrawnShare, Draws
from eigentensor_operator.calls.service import CallService

SAFETENSORS = "application/vnd.safetensors"
_CALLS = re.compile("/v1/channels/([^/]+)/calls")
_SMALL = 1 << 18  # bytes of a body that is hashed at once, instead of in a thread
_JSON = 1 << 16  # bytes of any other body
_BODIES = 8  # largest bodies that are in memory at a time
_TURN, _LOOK = 2.0, 0.005  # seconds for which a call waits for the one before it, and between looks
_HASH = 32  # bytes


@dataclass(frozen=True, slots=True)
class Where:
    """What answers name beside calls: the market's domain, its token, seconds that a call may take, and where programs
    and weights lie."""

    domain: Domain
    token: str
    seconds: int
    store: LocalStore


def calls_app(service: CallService, where: Where, draws: Draws) -> ASGIApp:
    """The endpoint of paid calls, to be served in the service's event loop."""
    limit = service.rules.body

    def limit_of(scope: Scope) -> int:
        return limit if _CALLS.fullmatch(scope["path"]) else _JSON

    calls = _Calls(service, where, _others(service, where, draws))
    return problems.Heads(BodyLimit(calls, limit=limit_of, total=_BODIES * limit))


def _others(service: CallService, where: Where, draws: Draws) -> FastAPI:
    """All but the calls themselves."""
    app = FastAPI(title="EigenTensor calls", version=VERSION, openapi_url=None)
    problems.install(app)

    @app.get("/v1/deals")
    def quotes() -> Response:
        """What is offered, by pool."""
        return JSONResponse(Quotes(service.quotes()).to_json())

    @app.post("/v1/deals")
    async def deal(request: Request) -> Response:
        """A deal as it is asked for, signed."""
        try:
            deal = await run_in_threadpool(service.deal, DealRequest.from_json(await _object(request)))
        except EigenTensorError as error:
            return _refusal(error)
        return JSONResponse(deal.to_json())

    @app.get("/v1/channels/{channel}")
    def channel(channel: str) -> Response:
        """Where a channel stands."""
        try:
            return JSONResponse(service.status(_hash(channel)).to_json())
        except ChannelClosed as error:
            raise TaskNotFound(error.what, fix=error.fix) from None

    @app.get("/v1/channels/{channel}/calls")
    def calls(
        channel: str, first: Annotated[int, Query(ge=0, lt=1 << 63)], signature: Annotated[str, Query()]
    ) -> Response:
        """Calls of a channel, to its payer."""
        name = _hash(channel)
        payer = service.served(name).deal.payer
        if recover(keccak(CallsRequest(name, first).message(where.domain)), _bytes(signature)) != payer:
            raise CallRefused("the request for the calls is not signed", fix=f"Sign it with the key of {payer}.")
        return JSONResponse(PaidCalls(name, service.calls_from(name, first)).to_json())

    @app.post("/v1/channels/{channel}/conclusion")
    async def conclusion(channel: str, request: Request) -> Response:
        """The last voucher of a channel, signed by both sides then."""
        try:
            last = SignedVoucher.from_json(await _object(request))
            arguments = (_hash(channel), last.voucher, last.signature)
            signature = await run_in_threadpool(service.conclude, *arguments)
        except EigenTensorError as error:
            return _refusal(error)
        return JSONResponse(SignedVoucher(last.voucher, signature).to_json())

    @app.get("/v1/batches/{batch}/shares/{share}")
    def share(batch: str, share: int, signature: Annotated[str, Query()]) -> Response:
        """A share, to those that may check it."""
        request = _share_request(batch, share)
        account = recover(keccak(request.message(where.domain)), _bytes(signature))
        if account is None:
            raise CallRefused("the request for the share is not signed", fix="Sign it as a candidate's signer.")
        drawn = draws.drawn(request.batch, request.share, account)
        lines, calls = _shown_share(service, drawn)
        return JSONResponse(ShownShare(request.batch, request.share, lines, calls).to_json())

    @app.get("/v1/blobs/{root}")
    def blob(root: str) -> Response:
        """Inputs or states of a call that is kept, a program or its weights, by root."""
        name = _hash(root)
        try:
            return Response(service.blob(name), media_type=SAFETENSORS)
        except BlobNotFound:
            return Response(where.store.read(name), media_type="application/octet-stream")

    @app.get("/healthz")
    def alive() -> Response:
        return PlainTextResponse("ok\n") if service.is_well() else PlainTextResponse(f"{service.stopped}\n", 503)

    return app


class _Calls:
    """What answers calls, and leaves all else to `others`. A framework's layers cost as much as a small call."""

    def __init__(self, service: CallService, where: Where, others: ASGIApp) -> None:
        self._service, self._where, self._others = service, where, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = _CALLS.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if named is None:
            await self._others(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await self._answered(named[1], request)
        except CallConflict as error:  # how to go on: where the channel stands
            response = _refusal(error, channel=self._service.status(_hash(named[1])).to_json())
        except EigenTensorError as error:
            response = _refusal(error)
        except ClientDisconnect:
            return
        except HTTPException:  # of a body over the limit
            raise
        except Exception as error:
            response = problems.fault("POST", scope["path"], error)
        await response(scope, receive, send)

    async def _answered(self, name: str, request: Request) -> Response:
        service, channel = self._service, _hash(name)
        known = service.served(channel)
        computation = _computation(request.scope["query_string"])
        served, price = service.quoted(channel, computation)
        inputs = await _inputs(service, served, computation, await request.body())
        header = request.headers.get(x402.SIGNATURE)
        if header is None:
            return _unpaid(known, self._where, request, computation, price, inputs)
        payment = x402.read_signature(header)
        await _turn(known, payment.voucher.count)
        answer = await _settled(service.take(channel, computation, payment, inputs, address(request.scope)))
        paid = {x402.RESPONSE: x402.response(self._where.domain, known.deal.payer, answer.price, answer.response)}
        return Response(answer.outputs, media_type=SAFETENSORS, headers=paid)


async def _settled(future: "Future[Answer]") -> Answer:
    """The result of a call's future, which is settled in this event loop's own thread. Raises as it was refused."""
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda _: None if turn.done() else turn.set_result(None))
    await turn
    return future.result()


@lru_cache(256)
def _computation(query: bytes) -> Computation:
    """What a query asks for: clients call the same again and again. Raises CallRefused, BindingError."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=2048)
    except ValueError as error:
        raise CallRefused(f"the query is malformed: {error}", fix="Name program=ROOT and what it binds.") from None
    return Computation.of_query(pairs)


async def _inputs(service: CallService, served: ServedProgram, computation: Computation, body: bytes) -> Inputs:
    if len(body) <= _SMALL:
        return service.read(served.program, computation, body)
    return await run_in_threadpool(service.read, served.program, computation, body)


async def _turn(known: ServedChannel, count: int) -> None:
    """Waits for the calls before this one, which may come by other connections."""
    until = time.monotonic() + _TURN
    while time.monotonic() < until:
        newest = known.payee.newest
        ahead = count - 1 - (newest.count if newest else 0)
        if not 0 < ahead < known.payee.offer.tail:
            return
        await asyncio.sleep(_LOOK)


def _unpaid(
    known: ServedChannel, where: Where, request: Request, computation: Computation, price: int, inputs: Inputs
) -> Response:
    """What a call would be accepted for."""
    extra = known.status().to_json() | {"query": computation.text(), "inputs": "0x" + inputs.root.hex()}
    accepted = x402.requirements(where.domain, where.token, price, where.seconds, extra)
    detail = f"the call costs {price} wei"
    required = x402.required(str(request.url), accepted, detail)
    fix = f"Send {x402.SIGNATURE} as {x402.REQUIRED} says."
    return problems.problem(402, "PaymentRequired", detail, fix, {x402.REQUIRED: required})


def _refusal(error: EigenTensorError, **members: Any) -> Response:
    """A problem, with other members beside its own; it says when to try again."""
    content = problems.of_error(error) | members
    headers = {"Retry-After": "1"} if content["status"] in (429, 503) else None
    return JSONResponse(content, content["status"], headers, media_type=problems.MEDIA_TYPE)


def _shown_share(service: CallService, drawn: DrawnShare) -> tuple[tuple[LineProof, ...], tuple[ShownCall, ...]]:
    """The lines of a share and its calls. Raises TaskNotFound for a batch that is not committed, or over."""
    lines = service.lines_of(drawn.pool, drawn.number)
    calls = service.calls_of(drawn.pool, drawn.number)
    if not lines or any(number >= len(calls) for number in drawn.calls):
        raise TaskNotFound("nothing is kept of this batch: it is not committed, or over")
    positions = [
        next(at for at, line in enumerate(lines) if line.index_of(number) is not None) for number in drawn.calls
    ]
    shown = sorted(set(positions))
    levels = {at: service.leaves_of(lines[at].channel)[: lines[at].first + lines[at].count] for at in shown}
    opened = []
    for number, at in zip(drawn.calls, positions, strict=True):
        call = calls[number]
        path = merkle.path(levels[at], call.receipt.index)
        result = merkle.result_of(call.receipt.outputs_root)
        opened.append(ShownCall(shown.index(at), call.receipt.index, call.order, call.variables, result, path))
    return tuple(open_line(lines, at) for at in shown), tuple(opened)


async def _object(request: Request) -> dict[str, Any]:
    try:
        values = await request.json()
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise CallRefused("the body is no JSON object", fix="Send what the page of the operator names.")
    return values


def _share_request(batch: str, share: int) -> ShareRequest:
    try:
        return ShareRequest(_hash(batch), share)
    except ValueError:
        raise TaskNotFound(f"there is no share {share}") from None


def _bytes(text: str) -> bytes:
    try:
        return unhex(text)
    except ValueError:
        return b""


def _hash(text: str) -> bytes:
    if len(value := _bytes(text)) != _HASH:
        raise TaskNotFound(f"{text[:80]!r} names nothing: it is no hash", fix="A hash has 64 hex digits.")
    return value
