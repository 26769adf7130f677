"""`eigentensor serve` in a thread, for clients that want a real server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from eigentensor_client.client import Client
from eigentensor_client.serving.app import create_app
from eigentensor_client.serving.running import assembled, listening_at
from eigentensor_client.serving.settings import Settings


@contextmanager
def served(settings: Settings, client: Client | None = None) -> Iterator[str]:
    """Its URL, until the block ends."""
    with assembled(settings, client) as service, listening_at(settings) as listening:
        server = uvicorn.Server(uvicorn.Config(create_app(service), log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
