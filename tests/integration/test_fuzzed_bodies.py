"""No body and no head makes either HTTP interface fail or hang."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi import FastAPI
from tinygrad import Tensor

from eigentensor import merkle
from eigentensor.capture import TensorContext
from eigentensor.chain import Chain
from eigentensor.store import Pieces, save_safetensors
from eigentensor_aggregator.config import Settings as GatewaySettings
from eigentensor_aggregator.service import assembled as gateway_assembled
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from support.hostile.requests import Seed, survive, survive_heads
from support.stories.market import Orders

JSON, BYTES = "application/json", "application/octet-stream"


@pytest.fixture
def gateway(settings: GatewaySettings, order_of: Orders, client: Chain) -> Iterator[tuple[FastAPI, list[Seed]]]:
    pieces = Pieces.of(bytes(3 << 20))
    blob, task = pieces.blob.hex(), "3f" * 32
    order = {"order": order_of().to_json(), "signature": "0x" + "11" * 65}
    decline = {"task": task, "operator": client.address, "reason": "price", "needed": "1", "offered": "0",
               "signature": "0x" + "11" * 65}  # fmt: skip
    seeds = [
        Seed("PUT", f"/v1/blobs/{blob}/pieces", JSON, json.dumps(pieces.to_json()).encode()),
        Seed("PUT", f"/v1/blobs/{merkle.blob_root(b'small').hex()}", BYTES, b"small"),
        Seed("POST", f"/v1/tasks/{task}/declines", JSON, json.dumps(decline).encode()),
        Seed("POST", "/v1/orders", JSON, json.dumps(order).encode()),
    ]
    with gateway_assembled(settings) as (app, _):
        yield app, seeds


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FastAPI, list[Seed]]]:
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "blobs"))
    context = TensorContext()
    x = context.add_graph_input("x", (4,))
    graph = context.compile_to_graph(x + context.add_weight("w", Tensor(np.ones(4, np.float32))))
    encoded, x_ = graph.to_bytes(), np.arange(4, dtype=np.float32)
    save_safetensors(tmp_path / "w", {name: np.asarray(array) for name, array in graph.weights.items()})
    save_safetensors(tmp_path / "x", {"x": x_})
    tensor = {"dtype": "float32", "shape": [4], "data": base64.b64encode(x_.tobytes()).decode()}
    with assembled(Settings(local=True, data=tmp_path / "data", rate=1e9, max_waiting=10**6)) as running:
        program = running.store.names(running.store.put(encoded)).computed or ""
        weights = running.store.names(running.store.put(tmp_path / "w")).computed or ""
        task = {"program": program, "weights": weights, "inputs": {"x": tensor}, "terms": {"max_price": "0.01"}}
        promised = {"task_uuid": program, "weights_uuid": weights, "input_tensors": {"x": [1, 2.5, 3, 4]}}
        query = f"program={program}&weights={weights}&repeat=1&variable=n:1".encode()
        seeds = [
            Seed("POST", "/execute_graph_on_gpu", JSON, json.dumps(promised).encode()),
            Seed("POST", "/v1/tasks", JSON, json.dumps(task).encode()),
            Seed("POST", "/v1/quotes", JSON, json.dumps(task).encode()),
            Seed("POST", "/v1/quotes", BYTES, (tmp_path / "x").read_bytes(), query.partition(b"&variable")[0]),
            Seed("POST", "/v1/tasks", BYTES, (tmp_path / "x").read_bytes(), query),
            Seed("PUT", f"/v1/blobs/{program}", BYTES, encoded),
            Seed("PUT", f"/v1/blobs/{weights}", BYTES, (tmp_path / "w").read_bytes()),
        ]
        yield create_app(running), seeds


def check_statuses(statuses: Counter[int]) -> None:
    """A fuzzer that is always refused at the door has shown nothing."""
    assert any(status < 300 for status in statuses) and len(statuses) >= 3, statuses


def test_the_gateway_survives_a_few_fuzzed_bodies(gateway: tuple[FastAPI, list[Seed]]) -> None:
    check_statuses(survive(*gateway, 300, seed=1))


def test_the_service_survives_a_few_fuzzed_bodies(service: tuple[FastAPI, list[Seed]]) -> None:
    check_statuses(survive(*service, 300, seed=2))


def test_the_gateway_survives_odd_heads(gateway: tuple[FastAPI, list[Seed]]) -> None:
    check_statuses(survive_heads(*gateway, 300, seed=5))


def test_the_service_survives_odd_heads(service: tuple[FastAPI, list[Seed]]) -> None:
    check_statuses(survive_heads(*service, 300, seed=6))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_gateway_survives_fifty_thousand_fuzzed_bodies(gateway: tuple[FastAPI, list[Seed]]) -> None:
    check_statuses(survive(*gateway, 50_000, seed=3))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_service_survives_fifty_thousand_fuzzed_bodies(service: tuple[FastAPI, list[Seed]]) -> None:
    check_statuses(survive(*service, 50_000, seed=4))
