"""`eigentensor serve --local`: the whole HTTP interface over programs that this machine executes."""

import base64
import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tinygrad import Tensor

from eigentensor import merkle
from eigentensor.capture import GraphProgram, TensorContext
from eigentensor.errors import ExecutionError
from eigentensor.store import bindings_root, load_safetensors, save_safetensors
from eigentensor_serve import asking, local
from eigentensor_serve import executor as executing
from eigentensor_serve.bodies import TaskBody
from eigentensor_serve.local import LocalBackend
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.service import Service
from eigentensor_serve.settings import Settings

BIAS = np.array([1, -2, 0.5, 4], np.float32)


@pytest.fixture(scope="module")
def graph() -> GraphProgram:
    """x · 2 + bias."""
    context = TensorContext()
    x = context.add_graph_input("x", (4,))
    bias = context.add_weight("bias", Tensor(BIAS))
    return context.compile_to_graph(x * 2 + bias)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("serve")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EIGENTENSOR_CACHE_DIR", str(home / "blobs"))
        with assembled(Settings(local=True, data=home / "data", rate=1e6)) as running:
            yield running


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def names(http: TestClient, graph: GraphProgram, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Program and weights, given to the service by their names."""
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_safetensors(path, {name: np.asarray(array) for name, array in graph.weights.items()})
    program, weights = merkle.program_root(graph.to_bytes()).hex(), bindings_root(path).hex()
    for name, data in ((program, graph.to_bytes()), (weights, path.read_bytes())):
        assert http.put(f"/v1/blobs/{name}", content=data).status_code == 201
    return {"program": program, "weights": weights}


def coded(array: np.ndarray) -> dict[str, Any]:
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def decoded(tensor: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(tensor["data"]), tensor["dtype"]).reshape(tensor["shape"])


def test_the_promised_route_executes_what_is_named_and_keeps_every_bit(http: TestClient, names: dict[str, str]) -> None:
    x = np.random.default_rng(3).standard_normal(4, dtype=np.float32)
    body = {"task_uuid": names["program"], "weights_uuid": names["weights"], "input_tensors": {"x": coded(x)}}
    answer = http.post("/execute_graph_on_gpu", json=body)
    assert answer.status_code == 200, answer.text
    assert decoded(answer.json()["tensor"]).tobytes() == (x * 2 + BIAS).tobytes()
    assert answer.headers["eigentensor-state"] == "local" and answer.json()["task"]["price"] is None


def test_numbers_are_answered_with_numbers_and_either_kind_can_be_asked_for(
    http: TestClient, names: dict[str, str]
) -> None:
    x = np.array([np.nan, -0.0, np.inf, 0.1], np.float32)
    expected = ["NaN", -2.0, "Infinity", float(x[3] * 2 + BIAS[3])]
    listed = {**names, "inputs": {"x": ["NaN", -0.0, "Infinity", float(x[3])]}}
    packed = {**names, "inputs": {"x": coded(x)}}
    for body, query, wanted in (
        (listed, {}, "values"), (packed, {}, "data"),
        (listed, {"elements": "base64"}, "data"), (packed, {"elements": "lists"}, "values"),
    ):  # fmt: skip
        answer = http.post("/execute_graph_on_gpu", json=body, params=query)
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"]["output"].keys() == {"dtype", "shape", wanted}
        if wanted == "values":
            assert answer.json()["outputs"]["output"]["values"] == expected
    url = f"/v1/tasks/{answer.headers['eigentensor-task']}/result"
    read = http.get(url, headers={"accept": "application/json"}).json()["tensor"]
    listed_read = http.get(url, headers={"accept": "application/json"}, params={"elements": "lists"}).json()["tensor"]
    assert decoded(read)[3] == listed_read["values"][3] == expected[3]
    assert http.get(url, params={"elements": "numbers"}).status_code == 400


def test_a_safetensors_body_gets_a_safetensors_answer(http: TestClient, names: dict[str, str], tmp_path: Path) -> None:
    x = np.array([np.nan, -0.0, np.inf, 1e-45], np.float32)
    save_safetensors(tmp_path / "in", {"x": x})
    body, kind = (tmp_path / "in").read_bytes(), {"content-type": "application/octet-stream"}
    answer = http.post("/execute_graph_on_gpu", params=names, content=body, headers=kind)
    assert answer.status_code == 200, answer.text
    (tmp_path / "out").write_bytes(answer.content)
    output = load_safetensors(tmp_path / "out")["output"]
    assert output[1:].tobytes() == (x * 2 + BIAS)[1:].tobytes() and np.isnan(output[0])


def test_the_same_key_and_request_is_the_same_task_and_another_request_is_refused(
    http: TestClient, names: dict[str, str]
) -> None:
    key = {"idempotency-key": "order-1"}
    first = http.post("/v1/tasks", json={**names, "inputs": {"x": [1, 2, 3, 4]}}, headers=key)
    again = http.post("/v1/tasks", json={**names, "inputs": {"x": [1.0, 2.0, 3.0, 4.0]}}, headers=key)
    other = http.post("/v1/tasks", json={**names, "inputs": {"x": [1, 2, 3, 5]}}, headers=key)
    assert first.status_code == again.status_code == 202
    assert first.json()["task"] == again.json()["task"]
    assert other.status_code == 422 and other.json()["code"] == "KeyReused"


def test_events_end_with_the_task_and_go_on_where_one_stopped(http: TestClient, names: dict[str, str]) -> None:
    url = http.post("/v1/tasks", json={**names, "inputs": {"x": [1, 2, 3, 4]}}).headers["location"]
    lines = [line for line in http.get(f"{url}/events").text.splitlines() if line.startswith(("event:", "id:"))]
    assert lines == ["event: queued", "id: 1", "event: running", "id: 2", "event: local", "id: 3"]
    rest = http.get(f"{url}/events", headers={"last-event-id": "2"}).text
    assert "id: 3" in rest and "id: 2" not in rest


def test_what_is_executed_at_once_tells_and_keeps_the_same_as_what_waits(
    http: TestClient, service: Service, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, events = [], []
    for quick in (0, executing.QUICK):
        monkeypatch.setattr(executing, "QUICK", quick)
        for _ in range(2):  # at the first execution it may have to be compiled
            http.post("/execute_graph_on_gpu", json={**names, "inputs": {"x": [1, 2, 3, 4]}})
        answer = http.post("/execute_graph_on_gpu", json={**names, "inputs": {"x": [4, 3, 2, 1]}})
        task = answer.headers["eigentensor-task"]
        kept = http.get(f"/v1/tasks/{task}/result", headers={"accept": "application/octet-stream"})
        assert kept.content == Path(service.settings.data, "results", f"{task}.safetensors").read_bytes()
        answers.append({**answer.json(), "task": {**answer.json()["task"], "task": ""}})
        events.append([{**event.response, "task": ""} for event in service.ledger.events(task)])
    assert answers[0] == answers[1] and events[0] == events[1]
    assert [event["stage"] for event in events[0]] == ["queued", "running", "local"]


def test_what_fails_at_once_says_why(http: TestClient, names: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    body = {**names, "inputs": {"x": [1, 2, 3, 4]}}
    assert http.post("/execute_graph_on_gpu", json=body).status_code == 200

    def broken(*_: object) -> None:
        raise ExecutionError("the device is gone", fix="Find it.")

    monkeypatch.setattr(executing.Executor, "run", broken)
    refused = http.post("/execute_graph_on_gpu", json=body)
    assert refused.status_code == 400 and refused.json()["detail"] == "the device is gone"
    assert refused.json()["fix"] == "Find it."


def executing_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that execute from now on."""
    names: list[str] = []
    run = executing.Executor.run

    def record(self: executing.Executor, *arguments: Any) -> Any:
        names.append(threading.current_thread().name)
        time.sleep(0.01)
        return run(self, *arguments)

    monkeypatch.setattr(executing.Executor, "run", record)
    return names


def test_at_once_is_what_has_few_evaluations_and_few_calls(
    http: TestClient, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {**names, "inputs": {"x": [1, 2, 3, 4]}}
    http.post("/execute_graph_on_gpu", json=body)
    threads = executing_threads(monkeypatch)
    for limit in (None, "QUICK", "QUICK_PARTS"):
        with monkeypatch.context() as patch:
            if limit:
                patch.setattr(executing, limit, 0)
            assert http.post("/execute_graph_on_gpu", json=body).status_code == 200
    assert [name.startswith("execute") for name in threads] == [False, True, True]


def test_what_has_files_or_another_device_is_not_executed_where_its_request_is(
    http: TestClient, service: Service, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = TensorContext()
    count = context.add_state("count", (1,))
    count.assign(count + 1)
    counter = context.compile_to_graph(count)
    backend, counting = service.backend, merkle.program_root(counter.to_bytes()).hex()
    assert http.put(f"/v1/blobs/{counting}", content=counter.to_bytes()).status_code == 201
    plain = {**names, "inputs": {"x": [1, 2, 3, 4]}}
    counted = {"program": counting, "states": {"count": [1]}}
    for body in (plain, counted):
        assert http.post("/execute_graph_on_gpu", json=body).status_code == 200

    def is_quick(body: dict[str, Any]) -> bool:
        return backend.is_quick(asking.ask_of(service, TaskBody.model_validate(body)))

    for _ in range(500):
        if is_quick(plain):
            break
        time.sleep(0.01)
    else:
        pytest.fail("nobody waits for it for long")
    assert not is_quick(counted) and not is_quick({**plain, "states": "ab" * 32})
    monkeypatch.setattr(backend._executor, "device", "CUDA")  # type: ignore[attr-defined]
    assert not is_quick(plain)


def test_a_key_is_executed_once_whatever_asks_for_it_at_the_same_time(
    http: TestClient, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({**names, "inputs": {"x": [5, 6, 7, 8]}})
    http.post("/execute_graph_on_gpu", content=body, headers={"content-type": "application/json"})
    threads = executing_threads(monkeypatch)
    headers = {"content-type": "application/json", "idempotency-key": "two-lanes"}

    def ask(text: str) -> str:
        answer = http.post("/execute_graph_on_gpu", content=text, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.headers["eigentensor-task"]

    with ThreadPoolExecutor(4) as pool:
        tasks = set(pool.map(ask, [body, body + " " * asking.SMALL] * 2))
    assert len(tasks) == len(threads) == 1


def test_who_brings_a_new_program_lets_others_pass(
    http: TestClient, service: Service, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {**names, "inputs": {"x": [1, 2, 3, 4]}}
    http.post("/execute_graph_on_gpu", json=body)
    begun, go_on = threading.Event(), threading.Event()
    program = LocalBackend.program

    def slow(self: LocalBackend, uuid: str) -> Any:
        if uuid == "ab" * 32:
            begun.set()
            go_on.wait(60)
        return program(self, uuid)

    monkeypatch.setattr(LocalBackend, "program", slow)
    with ThreadPoolExecutor(1) as pool:
        cold = pool.submit(http.post, "/execute_graph_on_gpu", json={**body, "program": "ab" * 32})
        try:
            assert begun.wait(60)
            assert http.post("/execute_graph_on_gpu", json=body).status_code == 200
            assert not cold.done()
        finally:
            go_on.set()
        assert cold.result().status_code == 404


def test_what_is_quick_waits_for_its_turn_where_it_holds_nobody_up(
    http: TestClient, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({**names, "inputs": {"x": [1, 2, 3, 4]}})
    headers = {"content-type": "application/json"}
    http.post("/execute_graph_on_gpu", content=body, headers=headers)
    begun, go_on = threading.Event(), threading.Event()
    run = executing.Executor.run

    def slow(self: executing.Executor, *arguments: Any) -> Any:
        begun.set()
        go_on.wait(60)
        return run(self, *arguments)

    monkeypatch.setattr(executing.Executor, "run", slow)
    monkeypatch.setattr(local, "_QUEUES", 30)  # if everybody waited for it, that would be seen
    with ThreadPoolExecutor(2) as pool:
        texts = [body + " " * asking.SMALL, body]  # what is large is read elsewhere, and begins there
        first = pool.submit(http.post, "/execute_graph_on_gpu", content=texts[0], headers=headers)
        try:
            assert begun.wait(60)
            second = pool.submit(http.post, "/execute_graph_on_gpu", content=texts[1], headers=headers)
            for _ in range(20):  # the second is asked for meanwhile
                assert http.get("/v1/tasks").status_code == 200
                assert not first.done() and not second.done()
                time.sleep(0.01)
        finally:
            go_on.set()
        assert first.result().status_code == second.result().status_code == 200


def test_who_waits_hears_of_an_end_that_could_not_be_written_down(
    http: TestClient, service: Service, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executing, "QUICK", 0)
    record = service.ledger.record
    failures: list[str] = []

    def full(task: str, response: Any, **known: Any) -> None:
        if response["stage"] == "local" and not failures:
            failures.append(task)
            raise sqlite3.OperationalError("database or disk is full")
        record(task, response, **known)

    monkeypatch.setattr(service.ledger, "record", full)
    refused = http.post("/execute_graph_on_gpu", json={**names, "inputs": {"x": [1, 2, 3, 4]}})
    assert refused.status_code == 400 and "this service has a fault: OperationalError" in refused.json()["detail"]
    assert service.ledger.last(failures[0])["stage"] == "failed"


def test_a_service_without_its_ledger_or_its_folders_says_that_it_is_not_well(
    http: TestClient, service: Service
) -> None:
    for place in (service.settings.data, service.store.root, service.settings.data / "local.sqlite"):
        assert http.get("/healthz").json() == {"status": "ok"}
        away = place.rename(place.with_suffix(".away"))
        answer = http.get("/healthz")
        away.rename(place)
        assert (answer.status_code, answer.json()) == (503, {"status": "away"})


@pytest.mark.parametrize("accept", ["application/octet-stream", "application/json"])
def test_results_that_are_gone_are_not_found(
    http: TestClient, service: Service, names: dict[str, str], accept: str
) -> None:
    answer = http.post("/execute_graph_on_gpu", json={**names, "inputs": {"x": [1, 2, 3, 4]}})
    task = answer.headers["eigentensor-task"]
    Path(service.settings.data, "results", f"{task}.safetensors").unlink()
    gone = http.get(f"/v1/tasks/{task}/result", headers={"accept": accept})
    assert gone.status_code == 404 and gone.json()["code"] == "BlobNotFound"


@pytest.mark.parametrize(
    ("query", "status", "says"), [("repeat=0", 400, "query.repeat: "), ("variable=n", 422, "cannot read variable 'n'")]
)
def test_a_malformed_query_is_refused_whatever_the_body_is(
    http: TestClient, names: dict[str, str], query: str, status: int, says: str
) -> None:
    body = {**names, "inputs": {"x": [1, 2, 3, 4]}}
    refused = http.post(f"/execute_graph_on_gpu?{query}", json=body)
    assert refused.status_code == status and refused.json()["detail"].startswith(says)


def test_what_holders_of_tokens_name_is_confined(
    graph: GraphProgram, names: dict[str, str], service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with assembled(Settings(local=True, data=tmp_path, rate=1e6)) as guarded:
        token = {"authorization": f"Bearer {guarded.tokens.new('a stranger')}"}
        body = {**names, "inputs": {"x": [1, 2, 3, 4]}, "wait": "result"}
        with TestClient(create_app(guarded), base_url="http://localhost", headers=token) as http:
            answer = http.post("/execute_graph_on_gpu", json=body)
            assert answer.json()["tensor"]["values"] == (np.array([1, 2, 3, 4], np.float32) * 2 + BIAS).tolist()
            monkeypatch.setattr(shutil, "which", lambda name: None)
            refused = http.post("/execute_graph_on_gpu", json=body)
            with guarded.backend._turn:  # type: ignore[attr-defined]  # whoever executes has it
                waiting = http.post("/v1/tasks", json=body).json()["task"]
                guarded.tokens.remove("a stranger")
            http.get(f"/v1/tasks/{waiting}/events")  # until it ends
            late = http.get(f"/v1/tasks/{waiting}/result")
    assert late.status_code >= 400 and "bubblewrap is not installed" in late.json()["detail"]
    assert refused.status_code >= 400 and "bubblewrap is not installed" in refused.json()["detail"]
