"""EigenLayer's node API (spec v0.0.1), health for orchestrators, and metrics, over HTTP."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from enum import StrEnum

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import generate_latest
from starlette.types import ASGIApp

from eigentensor.errors import ConfigError
from eigentensor.version import VERSION
from eigentensor.web.server import Health, server
from eigentensor_operator.metrics import Metrics

SPEC = "v0.0.1"


class Status(StrEnum):
    """The words of the node specification."""

    UP = "Up"
    DOWN = "Down"
    INITIALIZING = "Initializing"


_HTTP = {Status.UP: 200, Status.INITIALIZING: 206, Status.DOWN: 503}


@dataclass(frozen=True, slots=True)
class Service:
    """A part of the node that can fail alone. Without those that are not vital the node is partially healthy."""

    id: str
    name: str
    description: str
    status: Status
    vital: bool = True


def health_of(services: list[Service]) -> Status:
    """The node's health: down with a vital service, partial with any that is not up."""
    if any(s.status is Status.DOWN and s.vital for s in services):
        return Status.DOWN
    return Status.UP if all(s.status is Status.UP for s in services) else Status.INITIALIZING


def node_app(
    services: Callable[[], list[Service]], metrics: Metrics, stands_on: Sequence[Callable[[], bool]] = ()
) -> FastAPI:
    """EigenLayer's node API about these services, health checks and metrics. `stands_on`: whether a database or folder
    answers that nothing is done without."""
    looks = Health(*stands_on)
    app = FastAPI(title="EigenTensor operator", version=VERSION, openapi_url=None)
    unknown = JSONResponse({"message": "API version not found"}, 404)

    @app.get("/eigen/node")
    def node(asked: str | None = Query(None, alias="version")) -> Response:
        body = {"node_name": "eigentensor-operator", "spec_version": SPEC, "node_version": f"v{VERSION}"}
        return JSONResponse(body) if asked in (None, SPEC) else unknown

    @app.get("/eigen/node/health")
    def health(asked: str | None = Query(None, alias="version")) -> Response:
        return Response(status_code=_HTTP[health_of(services())]) if asked in (None, SPEC) else unknown

    @app.get("/eigen/node/services")
    def listed(asked: str | None = Query(None, alias="version")) -> Response:
        if asked not in (None, SPEC):
            return unknown
        shown = [{"id": s.id, "name": s.name, "description": s.description, "status": s.status} for s in services()]
        return JSONResponse({"services": shown})

    @app.get("/eigen/node/services/{service}/health")
    def one(service: str, asked: str | None = Query(None, alias="version")) -> Response:
        if asked not in (None, SPEC):
            return unknown
        known = next((s for s in services() if s.id == service), None)
        return Response(status_code=404 if known is None else _HTTP[known.status])

    @app.get("/healthz")
    def alive() -> Response:
        return PlainTextResponse("ok\n") if looks.is_well() else PlainTextResponse("away\n", 503)

    @app.get("/readyz")
    def ready() -> Response:
        status = health_of(services())
        return PlainTextResponse(f"{status.lower()}\n", 503 if status is Status.DOWN else 200)

    @app.get("/metrics")
    def exposed() -> Response:
        return PlainTextResponse(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4")

    return app


class NodeServer:
    """Serves the app from a thread until `stop`, or in an event loop that runs in one. Port 0 takes a free one: `port`
    says which."""

    def __init__(self, app: ASGIApp, host: str, port: int, loop: asyncio.AbstractEventLoop | None = None) -> None:
        try:
            listening = socket.create_server((host, port))
        except OSError as error:
            raise ConfigError(
                f"{host}:{port} cannot be listened on: {error}",
                fix="Choose another port: --port, or CALLS of paid calls.",
            ) from None
        self.port = int(listening.getsockname()[1])
        self._server = server(app)
        self._ended: Future[None] = Future()
        if loop is not None:
            self._ended = asyncio.run_coroutine_threadsafe(self._server.serve([listening]), loop)
        else:
            threading.Thread(target=self._run, args=[listening], daemon=True).start()

    def _run(self, listening: socket.socket) -> None:
        try:
            self._server.run([listening])
        finally:
            self._ended.set_result(None)

    def stop(self) -> None:
        """Ends the server, within five seconds."""
        self._server.should_exit = True
        wait([self._ended], timeout=5)


class Pulse:
    """When something worked last. Up while that is not longer ago than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last: float | None = None
        self._failed = False

    def beat(self) -> None:
        """It answered."""
        self._last, self._failed = time.monotonic(), False

    def miss(self) -> None:
        """It did not answer."""
        self._failed = True

    @property
    def age(self) -> float:
        """Seconds since the last answer; 0 before the first."""
        return 0.0 if self._last is None else time.monotonic() - self._last

    @property
    def status(self) -> Status:
        """Down after too long a silence."""
        if self._last is None:
            return Status.DOWN if self._failed else Status.INITIALIZING
        return Status.DOWN if self.age > self._seconds else Status.UP
