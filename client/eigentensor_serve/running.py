"""The service as one process: what it stands on, and HTTP in front of it."""

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from fastapi import FastAPI

from eigentensor.chain import to_wei
from eigentensor.chain.units import DECIMALS
from eigentensor.errors import ConfigError
from eigentensor.store import LocalStore
from eigentensor.web.server import allow_connections, server
from eigentensor_client.client import Client
from eigentensor_serve.changes import Changes
from eigentensor_serve.jobs import Budget
from eigentensor_serve.kept import Given, Room
from eigentensor_serve.ledger import Book
from eigentensor_serve.local import LocalBackend
from eigentensor_serve.metrics import Metrics
from eigentensor_serve.paid import PaidBackend
from eigentensor_serve.service import Service
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens


@contextmanager
def assembled(settings: Settings, client: Client | None = None) -> Iterator[Service]:
    """Everything of one service until the block ends. `client` pays; by default that of the settings' network."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    tokens, changes = Tokens(settings.tokens), Changes()
    if not settings.is_loopback and not tokens:
        raise ConfigError(
            f"on {settings.host} everybody who reaches this machine could spend its money",
            fix="Make a token first: `eigentensor serve token new NAME`.",
        )
    parts = (settings, changes, tokens)
    with _local(*parts) if settings.local else _paid(*parts, client or Client(settings.network)) as service:
        yield service


@contextmanager
def _local(settings: Settings, changes: Changes, tokens: Tokens) -> Iterator[Service]:
    store, price = LocalStore(), to_wei(settings.max_price)
    store.root.mkdir(parents=True, exist_ok=True)
    with closing(Book(settings.data / "local.sqlite", durable=False)) as book:
        given = Given(store, book.database, settings.max_kept)
        with closing(LocalBackend(book, changes, store, given, settings, tokens)) as backend:
            yield Service(
                settings, backend, book, changes, tokens, store, given, _room(settings, store), Metrics(), price,
                DECIMALS, "none: executes here", None,
            )  # fmt: skip


@contextmanager
def _paid(settings: Settings, changes: Changes, tokens: Tokens, client: Client) -> Iterator[Service]:
    client.store.root.mkdir(parents=True, exist_ok=True)
    deployment, decimals = client.network.deployment, client.network.deployment.token_decimals
    total = settings.budget_total
    most = None if total is None else to_wei(total, decimals)
    price = to_wei(settings.max_price, decimals)
    budget = Budget(to_wei(settings.budget, decimals), most, settings.max_tasks)
    name = f"{deployment.chain_id}-{deployment.task_market}-{client.address}".lower()
    with (
        client,
        closing(Book(settings.data / f"{name}.sqlite")) as book,
        closing(PaidBackend(client, book, changes, budget, price)) as backend,
    ):
        given = Given(client.store, book.database, settings.max_kept)
        yield Service(
                settings, backend, book, changes, tokens, client.store, given, _room(settings, client.store), Metrics(),
                price, decimals, client.network.name, client.address, deployment.domain,
            )  # fmt: skip


def _room(settings: Settings, store: LocalStore) -> Room:
    return Room((settings.data, store.root), settings.min_free)


def run(app: FastAPI, listening: socket.socket) -> None:
    """Serves until SIGTERM or SIGINT; requests that have begun are finished first."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # While it serves, uvicorn catches these, and hands them on when the last request is answered.
        signal.signal(number, lambda *_: sys.exit(0))
    allow_connections()
    server(app).run(sockets=[listening])
