"""The gateway: public data of one market over HTTP. It holds no client's key, and nobody needs to believe it."""

from http import HTTPStatus
from typing import cast

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import Scope

from eigentensor.merkle import PIECE
from eigentensor.schemas.network import Deployment, GatewayHealth, Network
from eigentensor.web import documents, problems
from eigentensor.web.documents import told
from eigentensor.web.limits import BodyLimit
from eigentensor_aggregator import blob_routes, challenge_routes, task_routes
from eigentensor_aggregator.bodies import Declining, PieceList, SignedOrder
from eigentensor_aggregator.parts import Parts
from eigentensor_aggregator.receiving import REQUEST

_JSON_LIMIT = 64 << 10
_PIECE_TEXT = 80  # bytes of a piece's root in JSON, with some air
_TAGS = {
    "blobs": "Programs, tensors and results, by the roots that orders and results name them by.",
    "tasks": "Tasks, operators and orders, as the chain tells of them.",
    "challenges": "Games about results.",
    "service": "The market, and how the gateway is.",
}
_ABOUT = """Amounts are wei as decimal strings, times are blocks, roots and uuids are 64 hex digits. An object says in
`schema` what it is; members may be added to it, and a change of what one means makes it `/2`. Refusals are RFC 9457
problems. Everything can be checked: blobs by their names, the rest at the chain."""


def create_app(parts: Parts) -> FastAPI:
    """The whole HTTP interface; OpenAPI at /openapi.json."""
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
    app.include_router(blob_routes.router(parts))
    app.include_router(task_routes.router(parts))
    app.include_router(challenge_routes.router(parts))
    app.include_router(_service(parts))
    documents.install(app, (Declining, SignedOrder, PieceList), examples=documents.examples("eigentensor.schemas"))
    pieces_limit = _JSON_LIMIT + _PIECE_TEXT * (parts.settings.max_blob // PIECE + 1)

    def limit(scope: Scope) -> int:
        if not scope["path"].startswith("/v1/blobs/"):
            return _JSON_LIMIT
        if scope["path"].endswith("/pieces"):
            return pieces_limit
        return REQUEST if any(name == b"content-range" for name, _ in scope["headers"]) else PIECE

    app.add_middleware(BodyLimit, limit=limit)
    return app


def _service(parts: Parts) -> APIRouter:
    routes = APIRouter(tags=["service"])

    @routes.get("/v1/network", responses=told(Network, "The market"))
    def read_network() -> JSONResponse:
        """The contracts of the market, and a node to reach them by if there is a public one."""
        network = parts.network
        said: Network = {
            "schema": "eigentensor.network/1",
            "name": network.name,
            "rpc_url": parts.settings.public_rpc_url or (network.rpc_url if network.is_local else None),
            "deployment": cast(Deployment, network.deployment.to_json()),
            "block": parts.daemon.block,
        }
        return JSONResponse(said)

    @routes.get("/healthz", responses=told(GatewayHealth, "It is well") | told(GatewayHealth, "It is not", status=503))
    def read_health() -> JSONResponse:
        """Whether the gateway follows its chain."""
        healthy = parts.daemon.is_healthy
        said: GatewayHealth = {"status": "ok" if healthy else "stale", "block": parts.daemon.block}
        return JSONResponse(said, HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE)

    @routes.get("/metrics", response_class=PlainTextResponse)
    def read_metrics() -> Response:
        """Counts and times, for Prometheus."""
        return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
