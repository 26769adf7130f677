"""The whole HTTP interface of `eigentensor serve`; OpenAPI at /openapi.json."""

from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from eigentensor.web import documents, problems
from eigentensor.web.limits import BodyLimit
from eigentensor_client.serving import apps_routes, blob_routes, limits, openai_routes, task_routes
from eigentensor_client.serving.apps_deployed import Deployed
from eigentensor_client.serving.bodies import AppBody, ExecuteBody, TaskBody
from eigentensor_client.serving.openai_errors import OpenAIErrors
from eigentensor_client.serving.service import Service

_CORS_HEADERS = ["authorization", "content-type", "idempotency-key", "prefer", "last-event-id"]


def create_app(service: Service) -> FastAPI:
    """Routes over a service; the caller closes its backend and its book."""
    settings = service.settings
    app = FastAPI(
        title="eigentensor serve",
        version=version("eigentensor"),
        description="Programs over HTTP: executed by strangers, paid by this service, checked.",
        docs_url=None,  # that page would run scripts of strangers where a click can spend money
        redoc_url=None,
    )
    problems.install(app)
    for routes in (task_routes, blob_routes):
        app.include_router(routes.router(service))
    deployed = Deployed(service)
    app.include_router(apps_routes.router(deployed))
    app.include_router(_service(service))
    documents.install(app, (TaskBody, ExecuteBody, AppBody), tokens=True)
    openai_routes.include(app, deployed)
    app.add_middleware(BodyLimit, limit=lambda scope: settings.max_body)
    limits.install(app, service.tokens, settings, service.metrics)
    app.add_middleware(OpenAIErrors)  # around the limits: theirs are told in the same way
    if settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["*"], allow_headers=_CORS_HEADERS
        )
    return app


def _service(service: Service) -> APIRouter:
    routes = APIRouter(tags=["service"])

    @routes.get("/healthz")
    async def health() -> JSONResponse:
        healthy = service.backend.is_healthy()
        status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse({"status": "ok" if healthy else "stale"}, status)

    @routes.get("/version")
    async def read_version() -> dict[str, Any]:
        """The version of this software, and whether this machine executes itself (`local`)."""
        found = {"version": version("eigentensor"), "local": service.backend.is_local}
        return {"schema": "eigentensor.version/1", **found}

    @routes.get("/metrics", response_class=PlainTextResponse)
    def read_metrics() -> Response:
        metrics = service.metrics
        for state, count in service.book.counts().items():
            metrics.jobs.labels(state).set(count)
        metrics.spent.set(service.book.spent())
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
