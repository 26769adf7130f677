"""The gateway: public data of one market over HTTP. It holds no client's key, and nobody needs to believe it."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import Scope

from eigentensor.merkle import PIECE
from eigentensor.web import documents, problems
from eigentensor.web.limits import BodyLimit
from eigentensor_aggregator import blob_routes, challenge_routes, task_routes
from eigentensor_aggregator.parts import Parts
from eigentensor_aggregator.receiving import REQUEST

_JSON_LIMIT = 64 << 10
_PIECE_TEXT = 80  # bytes of a piece's root in JSON, with some air


def create_app(parts: Parts) -> FastAPI:
    """The whole HTTP interface; OpenAPI at /openapi.json."""
    app = FastAPI(
        title="EigenTensor gateway",
        version="1",
        docs_url=None,  # that page would run scripts of strangers
        redoc_url=None,
    )
    problems.install(app)
    app.include_router(blob_routes.router(parts))
    app.include_router(task_routes.router(parts))
    app.include_router(challenge_routes.router(parts))
    app.include_router(_service(parts))
    documents.install(app)
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

    @routes.get("/v1/network")
    def read_network() -> dict[str, Any]:
        """The contracts of the market, and a node to reach them by if there is a public one."""
        network = parts.network
        rpc_url = parts.settings.public_rpc_url or (network.rpc_url if network.is_local else None)
        return {
            "schema": "eigentensor.network/1",
            "name": network.name,
            "rpc_url": rpc_url,
            "deployment": network.deployment.to_json(),
            "block": parts.daemon.block,
        }

    @routes.get("/healthz")
    def health() -> JSONResponse:
        healthy = parts.daemon.is_healthy
        content = {"status": "ok" if healthy else "stale", "block": parts.daemon.block}
        return JSONResponse(content, HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE)

    @routes.get("/metrics", response_class=PlainTextResponse)
    def read_metrics() -> Response:
        return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
