"""Spans of a task, told by client and gateway to one collector: one trace, named by the task."""

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from eigentensor import traces
from eigentensor.errors import BlobNotFound
from eigentensor.store import GatewayClient, LocalStore
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon

TASK = bytes(range(1, 33))


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Span]]:
    """What a collector on loopback got, when `traces.end` has returned."""
    spans: list[Span] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            spans.extend(s for r in asked.resource_spans for scope in r.scope_spans for s in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(traces.COLLECTOR, f"http://127.0.0.1:{server.server_address[1]}")
        traces.begin("test")
        try:
            yield spans
        finally:
            traces.end()
            server.shutdown()
            thread.join()


def test_a_task_is_one_trace_through_client_and_gateway(
    settings: Settings, serve: Callable[[Settings], tuple[str, Daemon]], tmp_path: Path, collected: list[Span]
) -> None:
    url, _ = serve(settings)
    traces.posted(TASK, time.time() - 3)
    phases = traces.Phases(TASK)
    for word in ("open", "open", "accepted", ""):
        phases.now(word)
    with GatewayClient(url, LocalStore(tmp_path / "s")) as client:
        with traces.span("execute", TASK, game=7), pytest.raises(BlobNotFound):
            client.fetch("11" * 32)
        assert client.names("22" * 32) is None  # of no task: it is not told
    traces.end()
    assert {span.trace_id for span in collected} == {TASK[:16]}
    by_name = {span.name: span for span in collected}
    asked = "GET /v1/blobs"
    assert by_name.keys() == {"post", "open", "accepted", "execute", asked}
    assert by_name["post"].span_id == TASK[16:24] and not by_name["post"].parent_span_id
    assert by_name["post"].end_time_unix_nano - by_name["post"].start_time_unix_nano > 2.9e9
    assert all(by_name[name].parent_span_id == TASK[16:24] for name in ("open", "accepted", "execute"))
    assert by_name[asked].parent_span_id == by_name["execute"].span_id
    assert by_name["execute"].attributes[0].key == "eigentensor.game"


def test_nothing_is_told_and_no_header_sent_where_no_collector_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(traces.COLLECTOR, raising=False)
    traces.begin("test")
    with traces.span("execute", TASK):
        assert traces.headers() == {}
