"""The gateway: public data of one market over HTTP. It holds no client's key, and nobody needs to believe it."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, FastAPI, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Scope

from eigentensor.chain import Chain, Decline, Network, Order, Posted, State, order_uuid
from eigentensor.errors import BlobCorrupt, BlobNotFound, BlobTooLarge, ConfigError, Reverted, TaskError
from eigentensor.merkle import PIECE
from eigentensor.store import Pieces, parse_name
from eigentensor_aggregator import answers, problems
from eigentensor_aggregator.blobs import Blobs, Received
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.problems import NotAllowed, TaskNotFound
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.tables import DeclineRow

_JSON_LIMIT = 64 << 10
_PIECE_TEXT = 80  # bytes of a piece's root in JSON, with some air
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")

Name = Annotated[str, Path(max_length=66, description="64 hex digits, with or without 0x")]


class Gateway:
    """What the routes stand on."""

    def __init__(
        self, settings: Settings, network: Network, store: Store, blobs: Blobs, daemon: Daemon, chain: Chain | None
    ) -> None:
        self.settings = settings
        self.network = network
        self.store = store
        self.blobs = blobs
        self.daemon = daemon
        self.chain = chain


def create_app(gateway: Gateway, metrics: Metrics) -> FastAPI:
    """The whole HTTP interface; OpenAPI at /openapi.json."""
    app = FastAPI(title="EigenTensor gateway", version="1", docs_url="/docs", redoc_url=None)
    problems.install(app)
    app.include_router(_blobs(gateway, metrics))
    app.include_router(_tasks(gateway))
    app.include_router(_service(gateway, metrics))
    pieces_limit = _JSON_LIMIT + _PIECE_TEXT * (gateway.settings.max_blob // PIECE + 1)

    def limit(scope: Scope) -> int:
        if not scope["path"].startswith("/v1/blobs/"):
            return _JSON_LIMIT
        return pieces_limit if scope["path"].endswith("/pieces") else PIECE

    app.add_middleware(problems.BodyLimit, limit=limit)
    return app


def _blobs(gateway: Gateway, metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix="/v1/blobs", tags=["blobs"])

    @router.head("/{name}", include_in_schema=False)
    @router.get("/{name}", response_class=StreamingResponse)
    def read_blob(request: Request, name: Name, range_: Annotated[str, Header(alias="range")] = "") -> Response:
        """The bytes of a blob by its blob root, program root, bindings root, …; one range of them if asked for."""
        names, _ = gateway.blobs.find(parse_name(name))
        start, stop, partial = _range(range_, names.size)
        headers = {
            "Accept-Ranges": "bytes",
            "Content-Length": str(stop - start),
            "ETag": f'"{names.blob}"',
            "Cache-Control": "public, immutable, max-age=31536000",
        }
        if partial:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{names.size}"
        status = HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK
        if request.method == "HEAD":
            return Response(None, status, headers, "application/octet-stream")

        content = gateway.blobs.read(names.blob, start, stop)

        def counted() -> Iterator[bytes]:
            for data in content:
                metrics.blob_bytes.labels("out").inc(len(data))
                yield data

        return StreamingResponse(counted(), status, headers, "application/octet-stream")

    @router.get("/{name}/pieces")
    def read_pieces(name: Name) -> dict[str, Any]:
        """All names of a blob, and the tree roots of its 1 MiB pieces: enough to verify each piece alone."""
        names, pieces = gateway.blobs.find(parse_name(name))
        return {"schema": "eigentensor.blob/1", **names.to_json(), **pieces.to_json()}

    @router.put("/{name}/pieces", status_code=HTTPStatus.ACCEPTED)
    def declare(name: Name, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """Begins or resumes the upload of a blob larger than one piece; the answer says from where to go on."""
        size = body.get("size")
        if type(size) is int and size > gateway.settings.max_blob:
            raise BlobTooLarge(f"a blob of {size} bytes is larger than {gateway.settings.max_blob}")
        pieces = Pieces.from_json(body, gateway.settings.max_blob)
        if pieces.blob.hex() != parse_name(name):
            raise BlobCorrupt(f"these are the pieces of blob {pieces.blob.hex()}")
        return _received(gateway.blobs.declare(pieces))

    @router.put("/{name}", status_code=HTTPStatus.ACCEPTED)
    async def write_piece(request: Request, name: Name, content_range: Annotated[str, Header()] = "") -> dict[str, Any]:
        """One piece of a declared upload, at its Content-Range; or a whole blob of at most one piece."""
        blob = parse_name(name)
        data = await request.body()
        place = _place(content_range, len(data)) if content_range else None
        received = await run_in_threadpool(gateway.blobs.receive, blob, data, place)
        metrics.blob_bytes.labels("in").inc(len(data))
        return _received(received)

    return router


def _tasks(gateway: Gateway) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["tasks"])
    parameters = gateway.network.deployment.parameters
    domain = gateway.network.deployment.domain

    def known(task: str) -> str:
        try:
            return parse_name(task)
        except BlobNotFound:
            raise TaskNotFound(f"{task!r} is not the uuid of a task") from None

    @router.get("/tasks")
    def list_tasks(
        state: Annotated[str | None, Query(max_length=16)] = None,
        client: Annotated[str | None, Query(max_length=42)] = None,
        executor: Annotated[str | None, Query(max_length=42)] = None,
        cursor: Annotated[str | None, Query(pattern=r"^\d{1,15}-\d{1,9}$")] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> dict[str, Any]:
        """Tasks, newest first. `next` is the cursor of the next page, null at the end."""
        block, _, index = (cursor or "").partition("-")
        views = gateway.store.tasks(
            state=state,
            client=answers.checksum(client),
            executor=answers.checksum(executor),
            before=(int(block), int(index)) if cursor else None,
            limit=limit,
        )
        more = f"{views[-1].posted.block}-{views[-1].posted.index}" if len(views) == limit else None
        tasks = [answers.task(view, parameters, gateway.daemon.block) for view in views]
        return {"schema": "eigentensor.tasks/1", "block": gateway.daemon.block, "tasks": tasks, "next": more}

    @router.get("/tasks/{task}")
    def read_task(task: Name) -> dict[str, Any]:
        """A task with its order and everything that happened to it."""
        events = gateway.store.events(known(task))
        view = gateway.store.task(known(task))
        if view is None:
            raise TaskNotFound(f"no task {task} in this market", fix="It may not be in a block yet.")
        return answers.task(view, parameters, gateway.daemon.block) | {"events": answers.events(events)}

    @router.get("/tasks/{task}/explain")
    def explain(task: Name) -> dict[str, Any]:
        """Why a task is where it is: what it waits for, and what each operator said about it."""
        view = gateway.store.task(known(task))
        if view is None:
            raise TaskNotFound(f"no task {task} in this market", fix="It may not be in a block yet.")
        declines = gateway.store.declines(known(task))
        return answers.explanation(view, parameters, gateway.daemon.block, gateway.store.operators(), declines)

    @router.post("/tasks/{task}/declines", status_code=HTTPStatus.CREATED)
    def decline(task: Name, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """Why an operator does not take a task, signed by its hot signer. Its last word counts."""
        said, signer = Decline.read(body, domain)
        view = gateway.store.task(known(task))
        if view is None or said.task.hex() != known(task):
            raise TaskNotFound(f"no task {task} in this market, or the decline is about another one")
        if view.state is not State.OPEN:
            raise TaskError(f"task {task} is {view.state.name.lower()}: nobody asks for operators any more")
        operators = {row.operator: row for row in gateway.store.operators()}
        if said.operator not in operators or operators[said.operator].signer != signer:
            raise NotAllowed(f"{signer} is not the signer of operator {said.operator}")
        row = DeclineRow(
            task=known(task),
            operator=said.operator,
            reason=said.reason,
            needed=said.needed,
            offered=said.offered,
            block=gateway.daemon.block,
        )
        if not gateway.store.add_decline(row, gateway.settings.max_declines):
            raise NotAllowed(f"{gateway.settings.max_declines} operators have spoken about task {task}")
        return {"schema": "eigentensor.decline/1"}

    @router.get("/operators")
    def list_operators() -> dict[str, Any]:
        """Every operator that ever joined, with its signer and its tasks by state."""
        rows, executed = gateway.store.operators(), gateway.store.executed()
        operators = [answers.operator(row, executed.get(row.operator, {})) for row in rows]
        return {"schema": "eigentensor.operators/1", "operators": operators}

    @router.post("/orders", status_code=HTTPStatus.CREATED)
    def post_order(body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """Posts a client's signed order; the gateway pays the gas, the client's balance the escrow. Safe to repeat."""
        if gateway.chain is None:
            raise ConfigError(
                "this gateway posts no orders: it has no account of its own",
                fix="Post the order yourself, or start the gateway with a keystore.",
            )
        order, signature = _signed_order(body)
        task = order_uuid(order, domain)
        if gateway.chain.task_at(task).state is not State.NONE:
            return {"schema": "eigentensor.posted/1", "task": task.hex(), "transaction": None}
        receipt = gateway.chain.post(order, signature)
        if not any(isinstance(event, Posted) and event.task == task for event in receipt.events):
            raise Reverted("AlreadyPosted", (task.hex(),))
        return {"schema": "eigentensor.posted/1", "task": task.hex(), "transaction": "0x" + receipt.transaction.hex()}

    return router


def _service(gateway: Gateway, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["service"])

    @router.get("/v1/network")
    def read_network() -> dict[str, Any]:
        """The contracts of the market, and a node to reach them by if there is a public one."""
        network = gateway.network
        rpc_url = gateway.settings.public_rpc_url or (network.rpc_url if network.is_local else None)
        return {
            "schema": "eigentensor.network/1",
            "name": network.name,
            "rpc_url": rpc_url,
            "deployment": network.deployment.to_json(),
            "block": gateway.daemon.block,
        }

    @router.get("/healthz")
    def health() -> JSONResponse:
        healthy = gateway.daemon.is_healthy
        content = {"status": "ok" if healthy else "stale", "block": gateway.daemon.block}
        return JSONResponse(content, HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE)

    @router.get("/metrics")
    def read_metrics() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _received(received: Received) -> dict[str, Any]:
    return {"schema": "eigentensor.upload/1", "received": received.received, "complete": received.complete}


def _range(header: str, size: int) -> tuple[int, int, bool]:
    """The bytes start…stop that a Range header asks for, and whether it asks for a part; others are ignored."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found.groups() == ("", ""):
        return 0, size, False
    first, last = (int(text[:16]) if text else None for text in found.groups())
    if first is None:
        start, stop = max(0, size - (last or 0)), size
    else:
        start, stop = first, size if last is None else min(size, last + 1)
    if start >= stop:
        raise HTTPException(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"the blob has {size} bytes",
            {"Content-Range": f"bytes */{size}"},
        )
    return start, stop, True


def _place(header: str, length: int) -> tuple[int, int]:
    """Offset and size of the blob that a Content-Range header names."""
    found = _CONTENT_RANGE.fullmatch(header.strip())
    first, last, size = map(int, found.groups()) if found else (0, 0, 0)
    if found is None or last - first + 1 != length or last >= size:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"Content-Range {header!r} does not fit a body of {length} bytes")
    return first, size


def _signed_order(body: dict[str, Any]) -> tuple[Order, bytes]:
    order, signature = body.get("order"), body.get("signature")
    if not isinstance(order, dict) or not isinstance(signature, str):
        raise TaskError("the body must be an object with `order` and `signature`")
    try:
        return Order.from_json(order), bytes.fromhex(signature.removeprefix("0x"))
    except ValueError:
        raise TaskError("the signature must be hex") from None
