"""A node on loopback that says what a test wants, to each request or in the place of what a true one says."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

#: Without this a node takes nothing.
JSON = {"Content-Type": "application/json"}
#: From a method and what a true node would say, to an HTTP status and a body.
Says = Callable[[str, bytes], tuple[int, bytes]]


@contextmanager
def false_node(says: Says, true_node: str = "") -> Iterator[str]:
    """Its URL. Without a true node it has nothing to pass on."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            true = requests.post(true_node, data=asked, headers=JSON, timeout=30).content if true_node else b""
            status, body = says(json.loads(asked)["method"], true)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Prints nothing where whoever asked has gone away: what is printed is the test's to look at."""
            if not isinstance(sys.exception(), ConnectionError):
                raise

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
