"""Spans of a task, told by client and gateway to one collector: one trace, named by the task."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eigentensor import traces
from eigentensor.errors import BlobNotFound
from eigentensor.store import GatewayClient, LocalStore
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from support.collector import Told, collector

TASK = bytes(range(1, 33))


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """What a collector on loopback got, when `traces.end` has returned."""
    with collector() as told:
        monkeypatch.setenv(traces.COLLECTOR, told.url)
        traces.begin("test")
        try:
            yield told
        finally:
            traces.end()


def test_a_task_is_one_trace_through_client_and_gateway(
    settings: Settings, serve: Callable[[Settings], tuple[str, Daemon]], tmp_path: Path, collected: Told
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
    assert {(service, span.trace_id) for service, span in collected} == {("test", TASK[:16])}
    by_name = {span.name: span for _, span in collected}
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
