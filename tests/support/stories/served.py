"""`eigentensor serve` in a thread, for clients that want a real server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eigentensor.web.server import listen, server
from eigentensor_client.client import Client
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings


@contextmanager
def served(settings: Settings, client: Client | None = None) -> Iterator[str]:
    """Its URL, until the block ends."""
    with assembled(settings, client) as service, listen(settings.host, settings.port) as listening:
        running = server(create_app(service))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()


@contextmanager
def served_here(home: Path) -> Iterator[tuple[Apps, str]]:
    """The apps and the URL of one that executes on this machine, in folders of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EIGENTENSOR_CACHE_DIR", str(home / "blobs"))
        with served(Settings(local=True, data=home / "data", rate=1e6, port=0)) as url:
            yield Apps(home / "data"), url
