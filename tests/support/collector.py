"""An OpenTelemetry collector on loopback, which keeps what it is told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Told(list[tuple[str, Span]]):
    """Spans, with the services that told of them."""

    def __init__(self) -> None:
        super().__init__()
        self.url = ""

    def of(self, trace: bytes) -> list[tuple[str, Span]]:
        """Those of one trace."""
        return [(service, span) for service, span in self if span.trace_id == trace]


@contextmanager
def collector() -> Iterator[Told]:
    """One that listens until the block ends."""
    told = Told()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in asked.resource_spans:
                named = {one.key: one.value.string_value for one in resource.resource.attributes}
                service = named["service.name"].removeprefix("eigentensor-")
                told.extend((service, span) for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
