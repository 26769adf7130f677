"""Aggregators in the process of a test, behind ports of their own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eigentensor.web.server import server
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.service import assembled


@contextmanager
def gateway(settings: Settings, port: int = 0) -> Iterator[tuple[str, Daemon]]:
    """Its URL and its daemon; port 0 is a free one."""
    with socket.create_server(("127.0.0.1", port)) as listening, assembled(settings) as (app, daemon):
        running = server(app)
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", daemon
        finally:
            running.should_exit = True
            thread.join()
