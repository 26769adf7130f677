"""The service as one process: what it stands on, and its whole HTTP interface; OpenAPI at /openapi.json."""

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from eigentensor.chain import to_wei
from eigentensor.chain.units import DECIMALS
from eigentensor.errors import ConfigError
from eigentensor.store import LocalStore
from eigentensor.version import VERSION
from eigentensor.web import documents, problems, server
from eigentensor.web.documents import response
from eigentensor.web.limits import BodyLimit
from eigentensor.web.pages import browsers
from eigentensor_client.schemas.channels import ChannelFacts
from eigentensor_serve import limits, routes
from eigentensor_serve.apps import routes as apps_routes
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.backend import Backend, Changes
from eigentensor_serve.bodies import AppBody, ExecuteBody, TaskBody
from eigentensor_serve.kept import ResultFiles, Room, Uploads
from eigentensor_serve.ledger import Budget, Ledger
from eigentensor_serve.local import LocalBackend
from eigentensor_serve.openai import routes as openai_routes
from eigentensor_serve.openai.errors import OpenAIErrors
from eigentensor_serve.pages import routes as page_routes
from eigentensor_serve.pages import signing
from eigentensor_serve.schemas import Health, Version
from eigentensor_serve.service import Metrics, Service
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens

if TYPE_CHECKING:  # what pays is imported where somebody pays: `--local` starts without it
    from eigentensor_client.channels.ledger import Ledger as ChannelLedger
    from eigentensor_client.client import Client

OPENING = 120.0  #: seconds that the opening of a channel may take: some blocks
BODIES = 4  #: of the largest size that are in memory at a time; of one caller half of that
#: What pages may read of an answer, beside its body.
_EXPOSED = [
    *(f"EigenTensor-{word}" for word in ("Task", "State", "States", "Rows", "Price", "Receipt")),
    *("Location", "Retry-After", "ETag", "Content-Range"),
]

_TAGS = {
    "tasks": "Programs by their names: quoted, executed, followed, proven.",
    "blobs": "Programs, weights and states, by their names.",
    "apps": "What is deployed: asked by name, described by itself.",
    "openai": "Apps that speak text, as OpenAI's clients ask them; refusals have OpenAI's form.",
    "service": "How the service is.",
}
_OPEN: dict[str, Any] = {"security": []}  # for anybody, and any number of times
_ABOUT = """Amounts are wei as decimal strings, times are blocks, roots and uuids are 64 hex digits. An object says in
`schema` what it is; members may be added to it, and a change of what one means makes it `/2`. Refusals are RFC 9457
problems. A request with an `Idempotency-Key` is paid once, however often it is sent."""


def create_app(service: Service) -> FastAPI:
    """Routes over a service; the caller closes its backend and its book."""
    settings = service.settings
    app = FastAPI(
        title="eigentensor serve",
        version=VERSION,
        summary="Programs over HTTP: executed by strangers, paid by this service, checked.",
        description=_ABOUT,
        openapi_tags=[{"name": name, "description": what} for name, what in _TAGS.items()],
        servers=documents.HERE,
        license_info=documents.LICENCE,
        generate_unique_id_function=documents.name,
        docs_url=None,  # that page would run scripts of strangers where a click can spend money
        redoc_url=None,
    )
    problems.install(app)
    app.include_router(routes.tasks(service))
    app.include_router(routes.blobs(service))
    deployed = Deployed(service)
    app.include_router(apps_routes.router(deployed))
    app.include_router(_service(service))
    examples = documents.examples("eigentensor.schemas") | documents.examples("eigentensor_serve")
    guards = (401, 403, 421, 429)
    documents.install(app, (TaskBody, ExecuteBody, AppBody), examples=examples, everywhere=guards, tokens=True)
    openai_routes.include(app, deployed)
    site = page_routes.site_of(service)
    app.include_router(page_routes.router(site, deployed))
    app.include_router(signing.router(site, service.tokens))
    browsers.install(app, site)
    app.add_middleware(
        BodyLimit,
        limit=lambda scope: signing.BODY if scope["path"] in limits.SIGNING else settings.max_body,
        total=BODIES * settings.max_body,
        streams=lambda scope: scope["path"].startswith("/v1/blobs/"),
        caller=limits.counted,
    )
    limits.install(app, service.tokens, settings, service.metrics, partial(signing.asking, site))
    app.add_middleware(OpenAIErrors)  # around the limits: theirs are told in the same way
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    return app


def _service(service: Service) -> APIRouter:
    router = APIRouter(tags=["service"])
    looks = server.Health(service.is_well)

    @router.get(
        "/healthz",
        responses=response(Health, "It is well") | response(Health, "It is not", status=503),
        openapi_extra=_OPEN,
    )
    def read_health() -> JSONResponse:
        """Whether what it stands on answers; anybody may ask."""
        status: Literal["ok", "stale", "away"] = "ok" if service.backend.is_healthy() else "stale"
        if not looks.is_well():
            status = "away"
        response: Health = {"status": status}
        return JSONResponse(response, HTTPStatus.OK if status == "ok" else HTTPStatus.SERVICE_UNAVAILABLE)

    @router.get("/version", responses=response(Version, "What serves"), openapi_extra=_OPEN)
    async def read_version() -> JSONResponse:
        """The version of this software, and whether this machine executes itself (`local`)."""
        response: Version = {
            "schema": "eigentensor.version/1",
            "version": VERSION,
            "local": service.backend.is_local,
        }
        return JSONResponse(response)

    @router.get("/metrics", response_class=PlainTextResponse)
    def read_metrics() -> Response:
        """Counts and times, for Prometheus."""
        metrics = service.metrics
        for state, count in service.ledger.counts().items():
            metrics.jobs.labels(state).set(count)
        if not service.backend.is_local:
            metrics.spent.set(service.ledger.spent())
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


@contextmanager
def assembled(settings: Settings, client: "Client | None" = None) -> Iterator[Service]:
    """Everything of one service until the block ends. `client` pays; by default that of the settings' network."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    tokens, changes = Tokens(settings.tokens), Changes()
    if not settings.is_loopback and not tokens:
        raise ConfigError(
            f"on {settings.host} everybody who reaches this machine could spend its money",
            fix="Make a token first: `eigentensor serve token new NAME`.",
        )
    parts = (settings, changes, tokens)
    if settings.local:
        chosen = _local(*parts)
    else:
        from eigentensor_client.client import Client

        client = client or Client(settings.network)
        client.store.root.mkdir(parents=True, exist_ok=True)
        chosen = (_called if settings.channels else _paid)(*parts, client)
    with chosen as service:
        yield service


@contextmanager
def _local(settings: Settings, changes: Changes, tokens: Tokens) -> Iterator[Service]:
    store, price = LocalStore(), to_wei(settings.max_price)
    store.root.mkdir(parents=True, exist_ok=True)
    with closing(Ledger(settings.data / "local.sqlite", durable=False)) as ledger:
        uploads = Uploads(store, ledger.database, settings.max_kept)
        with closing(LocalBackend(ledger, changes, store, uploads, settings, tokens)) as backend:
            yield Service(
                settings, backend, ledger, changes, tokens, store, uploads, _room(settings, store), Metrics(), price,
                DECIMALS, "none: executes here", None,
            )  # fmt: skip


@contextmanager
def _paid(settings: Settings, changes: Changes, tokens: Tokens, client: "Client") -> Iterator[Service]:
    from eigentensor_serve.paid import PaidBackend

    price = to_wei(settings.max_price, client.network.deployment.token_decimals)
    budget = replace(_budget(settings, client), tasks=settings.max_tasks)
    with (
        client,
        closing(Ledger(settings.data / f"{_name(client)}.sqlite")) as ledger,
        closing(PaidBackend(client, ledger, changes, budget, price, settings.retries)) as backend,
    ):
        yield _paying(settings, backend, ledger, changes, tokens, client, price)


@contextmanager
def _called(settings: Settings, changes: Changes, tokens: Tokens, client: "Client") -> Iterator[Service]:
    from eigentensor_client.channels.ledger import Ledger as ChannelLedger
    from eigentensor_client.channels.operators import Operators, Terms
    from eigentensor_serve.channels import ChannelBackend

    price = to_wei(settings.max_price, client.network.deployment.token_decimals)
    terms = Terms(
        deposit=settings.deposits, most=settings.budget, recheck=settings.recheck, timeout=settings.response,
        opening=OPENING,
    )  # fmt: skip
    with (
        client,
        closing(Ledger(settings.data / f"{_name(client)}-channels.sqlite")) as ledger,
        ChannelLedger() as signed,
    ):
        operators = Operators(settings.operators, terms, client=client, ledger=signed)
        results = ResultFiles(settings.data / "results", settings.max_kept)
        with closing(ChannelBackend(operators, ledger, changes, results, _budget(settings, client), price)) as backend:
            service = _paying(settings, backend, ledger, changes, tokens, client, price)
            yield replace(service, channels=partial(_channels, signed, client))


def _channels(signed: "ChannelLedger", client: "Client") -> list[ChannelFacts]:
    """Those of one market, oldest first."""
    from eigentensor_client.verbs.channel import describe

    domain = client.network.deployment.channels_domain
    return [describe(signed, account) for account in signed.accounts(domain)]


def _name(client: "Client") -> str:
    """Of the ledger of who pays, in its market."""
    deployment = client.network.deployment
    return f"{deployment.chain_id}-{deployment.task_market}-{client.address}".lower()


def _budget(settings: Settings, client: "Client") -> Budget:
    decimals, total = client.network.deployment.token_decimals, settings.budget_total
    return Budget(to_wei(settings.budget, decimals), None if total is None else to_wei(total, decimals))


def _paying(
    settings: Settings, backend: Backend, ledger: Ledger, changes: Changes, tokens: Tokens, client: "Client", price: int
) -> Service:
    """A service that pays at most `price` wei for what a caller names."""
    uploads = Uploads(client.store, ledger.database, settings.max_kept)
    deployment = client.network.deployment
    return Service(
        settings, backend, ledger, changes, tokens, client.store, uploads, _room(settings, client.store), Metrics(),
        price, deployment.token_decimals, client.network.name, client.address, deployment.domain,
        deployment.token_symbol,
    )  # fmt: skip


def _room(settings: Settings, store: LocalStore) -> Room:
    return Room((settings.data, store.root), settings.min_free)


def run(app: FastAPI, listening: socket.socket) -> None:
    """Serves until SIGTERM or SIGINT; requests that have begun are finished first."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # While it serves, uvicorn catches these, and hands them on when the last request is answered.
        signal.signal(number, lambda *_: sys.exit(0))
    server.allow_connections()
    server.server(app).run(sockets=[listening])
