"""The node API as EigenLayer specifies it, and metrics that exist before anything happened."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from eigentensor.errors import ConfigError
from eigentensor_operator.alarms import FIXES, HINDERING, Alarm, alarms_of
from eigentensor_operator.metrics import Metrics
from eigentensor_operator.node import NodeServer, Pulse, Service, Status, health_of, node_app
from eigentensor_operator.policy import Backing
from eigentensor_operator.store import Store
from support.stories.operator import POLICY, STANDING


def service(id_: str, status: Status, vital: bool = True) -> Service:
    return Service(id_, id_.title(), "what it does", status, vital)


UP, DOWN = service("chain-rpc", Status.UP), service("chain-rpc", Status.DOWN)
PARTIAL = service("blob-store", Status.DOWN, vital=False)


shown: list[Service] = []


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    server = NodeServer(node_app(lambda: shown, Metrics("WETH")), "127.0.0.1", 0)
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        yield client
    server.stop()


@pytest.fixture
def client(api: httpx.Client) -> Callable[..., httpx.Client]:
    def show(*services: Service) -> httpx.Client:
        shown[:] = services
        return api

    return show


Client = Callable[..., httpx.Client]


def test_health_says_no_while_what_it_stands_on_does_not_answer(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal")
    assert store.belongs_to("0x1", "0x2")
    server = NodeServer(node_app(lambda: [UP], Metrics("WETH"), [store.is_well]), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.port}/healthz"
    assert httpx.get(url).status_code == 200
    (tmp_path / "journal").unlink()
    assert httpx.get(url).status_code == 503
    server.stop()
    store.close()


def test_the_node_says_what_it_is(client: Client) -> None:
    body = client(UP).get("/eigen/node").json()
    assert body["node_name"] == "eigentensor-operator" and body["spec_version"] == "v0.0.1"
    assert body["node_version"].startswith("v")


@pytest.mark.parametrize(
    ("services", "code"),
    [([UP], 200), ([UP, PARTIAL], 206), ([UP, service("x", Status.INITIALIZING)], 206), ([DOWN, PARTIAL], 503)],
)
def test_health_is_a_status_without_a_body(client: Client, services: list[Service], code: int) -> None:
    answer = client(*services).get("/eigen/node/health")
    assert (answer.status_code, answer.content) == (code, b"")


def test_services_are_listed_and_asked_one_by_one(client: Client) -> None:
    api = client(UP, PARTIAL)
    assert api.get("/eigen/node/services").json() == {
        "services": [
            {"id": "chain-rpc", "name": "Chain-Rpc", "description": "what it does", "status": "Up"},
            {"id": "blob-store", "name": "Blob-Store", "description": "what it does", "status": "Down"},
        ]
    }
    assert api.get("/eigen/node/services/chain-rpc/health").status_code == 200
    assert api.get("/eigen/node/services/blob-store/health").status_code == 503
    assert api.get("/eigen/node/services/nothing/health").status_code == 404


@pytest.mark.parametrize("path", ["", "/health", "/services", "/services/chain-rpc/health"])
def test_another_version_of_the_api_is_not_found(client: Client, path: str) -> None:
    answer = client(UP).get(f"/eigen/node{path}?version=v9")
    assert (answer.status_code, answer.json()) == (404, {"message": "API version not found"})
    assert client(UP).get(f"/eigen/node{path}?version=v0.0.1").status_code == 200


def test_orchestrators_see_alive_and_ready(client: Client) -> None:
    assert client(DOWN).get("/healthz").status_code == 200
    assert client(DOWN).get("/readyz").status_code == 503
    assert client(UP, PARTIAL).get("/readyz").status_code == 200


def test_no_service_means_a_healthy_node() -> None:
    assert health_of([]) is Status.UP


def test_every_series_exists_at_zero(client: Client) -> None:
    text = client(UP).get("/metrics").text
    for line in (
        'eigen_fees_earned_total{avs_name="eigentensor",token="WETH"} 0.0',
        'eigen_slashing_incurred_total{avs_name="eigentensor",token="WETH"} 0.0',
        'eigen_balance_total{avs_name="eigentensor",token="WETH"} 0.0',
        'et_tasks_total{avs_name="eigentensor",state="final"} 0.0',
        'et_tasks_declined_total{avs_name="eigentensor",reason="price"} 0.0',
        'et_tasks_dropped_total{avs_name="eigentensor",reason="late"} 0.0',
        'et_task_phase_seconds_count{avs_name="eigentensor",phase="execute"} 0.0',
        'et_step_failures_total{avs_name="eigentensor",phase="upload"} 0.0',
        'et_determinism_selftest_ok{avs_name="eigentensor"} 0.0',
    ):
        assert line in text


def test_every_alarm_says_what_to_do() -> None:
    assert FIXES.keys() == set(Alarm) and set(Alarm) > HINDERING
    backing = Backing(10, 2, 1, queued=1, deallocating=1, gone_by=99, magnitude=1, paused=True)
    assert alarms_of(POLICY, replace(STANDING, delay=1, backing=backing)).keys() == set(Alarm)


def test_a_pulse_is_down_when_it_misses_or_was_never_there() -> None:
    pulse = Pulse(seconds=100)
    statuses = [pulse.status]
    for event in (pulse.miss, pulse.beat):
        event()
        statuses.append(pulse.status)
    assert statuses == [Status.INITIALIZING, Status.DOWN, Status.UP]
    silent = Pulse(seconds=-1)
    silent.beat()
    assert silent.status is Status.DOWN


def test_the_server_answers_and_ends_and_says_when_its_port_is_taken() -> None:
    server = NodeServer(node_app(lambda: [UP], Metrics("WETH")), "127.0.0.1", 0)
    try:
        assert httpx.get(f"http://127.0.0.1:{server.port}/eigen/node/health").status_code == 200
        with pytest.raises(ConfigError, match="cannot be listened on"):
            NodeServer(node_app(lambda: [UP], Metrics("WETH")), "127.0.0.1", server.port)
    finally:
        server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{server.port}/eigen/node/health")
