"""The gateway: public data of one market over HTTP. It holds no client's key, and nobody needs to believe it."""

from http import HTTPStatus
from typing import Literal, cast

import structlog
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.types import ASGIApp, Receive, Scope, Send

from eigentensor import traces
from eigentensor.merkle import PIECE
from eigentensor.schemas.network import Deployment, GatewayHealth, Network
from eigentensor.web import documents, problems
from eigentensor.web.documents import response
from eigentensor.web.limits import BodyLimit, address
from eigentensor.web.pages import browsers
from eigentensor_aggregator import blob_routes, challenge_routes, channel_routes, documentation, pages, task_routes
from eigentensor_aggregator.bodies import Declining, PieceList, SignedAsk, SignedOrder
from eigentensor_aggregator.parts import Parts
from eigentensor_aggregator.problems import Away, StandsBy
from eigentensor_aggregator.receiving import REQUEST
from eigentensor_aggregator.uploads import address_of

_JSON_LIMIT = 64 << 10
_BODIES = 256 << 20  # bytes of all requests that are being read
_log = structlog.get_logger(__name__)
_PIECE_TEXT = 80  # bytes of a piece's root in JSON, with some air
_TAGS = {
    "blobs": "Programs, tensors and results, by the roots that orders and results name them by.",
    "tasks": "Tasks, operators and orders, as the chain tells of them.",
    "challenges": "Games about results.",
    "channels": "Paid calls: the offers of operators, channels, and batches, as the chain tells of them.",
    "service": "The market, and how the gateway is.",
}
_ABOUT = """Amounts are wei as decimal strings, times are blocks, roots and uuids are 64 hex digits. An object says in
`schema` what it is; members may be added to it, and a change of what one means makes it `/2`. Refusals are RFC 9457
problems. Everything can be checked: blobs by their names, the rest at the chain."""


def create_app(parts: Parts) -> FastAPI:
    """The whole HTTP interface: for programs, and pages for people."""
    app = api(parts)
    site = pages.site_of(parts)
    app.include_router(parts.feed.router())
    for page in pages.ROUTERS:
        app.include_router(page(parts, site), include_in_schema=False)
    browsers.install(app, site, parts.clock.state)
    app.include_router(documentation.router())
    pieces_limit = _JSON_LIMIT + _PIECE_TEXT * (parts.settings.max_blob // PIECE + 1)

    def limit(scope: Scope) -> int:
        if not scope["path"].startswith("/v1/blobs/"):
            return _JSON_LIMIT
        if scope["path"].endswith("/pieces"):
            return pieces_limit
        return REQUEST if any(name == b"content-range" for name, _ in scope["headers"]) else PIECE

    def streams(scope: Scope) -> bool:
        return limit(scope) == REQUEST

    def caller(scope: Scope) -> str:
        return address_of(address(scope))

    app.add_middleware(Traced)
    app.add_middleware(BodyLimit, limit=limit, total=_BODIES, streams=streams, caller=caller)
    return app


def api(parts: Parts) -> FastAPI:
    """What programs ask; OpenAPI at /openapi.json."""
    app = FastAPI(
        title="EigenTensor gateway",
        version="1",
        summary="Public data of one market; nobody needs to believe it.",
        description=_ABOUT,
        openapi_tags=[{"name": name, "description": what} for name, what in _TAGS.items()],
        servers=documents.HERE,
        license_info=documents.LICENCE,
        generate_unique_id_function=documents.name,
        docs_url=None,  # that page would run scripts of strangers
        redoc_url=None,
    )
    problems.install(app)
    for error in (OperationalError, InterfaceError):
        app.add_exception_handler(error, _away)

    def leads(request: Request) -> None:
        if request.method not in ("GET", "HEAD") and not parts.daemon.leads:
            raise StandsBy(
                "this gateway stands by: another process leads on its database",
                fix="Send it to the one that leads; this one takes over if that one ends.",
            )

    for routes in (blob_routes, task_routes, challenge_routes, channel_routes):
        app.include_router(routes.router(parts), dependencies=[Depends(leads)])
    app.include_router(_service(parts))
    documents.install(
        app, (Declining, SignedAsk, SignedOrder, PieceList), examples=documents.examples("eigentensor.schemas")
    )
    return app


class Traced:
    """Tells of requests that carry a trace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Does for the request what there is to be done."""
        heads = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        kind = "/".join(scope.get("path", "").split("/")[:3])  # without what it is about: names of spans are few
        with traces.asked(f"{scope.get('method', '')} {kind}", heads):
            await self._app(scope, receive, send)


async def _away(_: Request, error: Exception) -> JSONResponse:
    _log.error("database failed", error=str(error))
    away = Away("the database does not answer", fix="Try again in a while.")
    return problems.problem(problems.status_of(away), type(away).__name__, away.what, away.fix)


def _service(parts: Parts) -> APIRouter:
    routes = APIRouter(tags=["service"])

    @routes.get("/v1/network", responses=response(Network, "The market"))
    def read_network() -> JSONResponse:
        """The contracts of the market, and a node to reach them by if there is a public one."""
        network = parts.network
        market: Network = {
            "schema": "eigentensor.network/1",
            "name": network.name,
            "rpc_url": parts.settings.public_rpc_url or (network.rpc_url if network.is_local else None),
            "deployment": cast(Deployment, network.deployment.to_json()),
            "block": parts.daemon.block,
        }
        return JSONResponse(market)

    @routes.get(
        "/healthz", responses=response(GatewayHealth, "It is well") | response(GatewayHealth, "It is not", status=503)
    )
    def read_health() -> JSONResponse:
        """Whether the gateway follows its chain, and its database and blobs answer."""
        status: Literal["ok", "stale", "away"] = "ok" if parts.daemon.is_healthy else "stale"
        if not parts.health.is_well():
            status = "away"
        answer: GatewayHealth = {"status": status, "block": parts.daemon.block, "leads": parts.daemon.leads}
        return JSONResponse(answer, HTTPStatus.OK if status == "ok" else HTTPStatus.SERVICE_UNAVAILABLE)

    @routes.get("/metrics", response_class=PlainTextResponse)
    def read_metrics() -> Response:
        """Counts and times, for Prometheus."""
        return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
