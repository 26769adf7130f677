"""`eigentensor serve` on a market: tasks over HTTP, paid once, within a budget, whatever ends the process."""

import base64
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from eigentensor import merkle
from eigentensor.capture import GraphProgram
from eigentensor.chain import from_wei
from eigentensor.errors import Unreachable
from eigentensor.program import Role
from eigentensor.receipt import Receipt
from eigentensor.store import LocalStore, bindings_root, save_safetensors
from eigentensor.task import NONE, Order, Posted
from eigentensor.task import State as TaskState
from eigentensor_client.client import Client
from eigentensor_client.orders import Roots, Terms, Work, escrow_of
from eigentensor_client.stages import GRACE
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Report, silent
from eigentensor_local.devnet import Devnet, Party
from eigentensor_serve.ledger import Ledger, State
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from support.stories.served import served as server_of

OFFER = {"max_price": "0.05", "check": "5%", "exec": 60, "accept_within": 100}
BRIEF = OFFER | {"accept_within": 120}

NOBODY = merkle.operators_root([bytes(19) + b"\x01"])


class Killed(BaseException):
    """Nothing catches it, as nothing catches `kill -9`."""


class Lonely(Client):
    """Its orders admit nobody: they stay open until they are taken back."""

    def drafts(self, works: Sequence[Work], named: Sequence[Roots], terms: Terms) -> list[Order]:
        return super().drafts(works, named, replace(terms, operators=NOBODY))


class Shy(Lonely):
    """Its orders admit nobody at first, and everybody when they are posted again."""

    def renewed(self, task: TaskView) -> Order:
        return replace(super().renewed(task), operators=NONE)


class Cut(Lonely):
    """The node is away when an order is drawn up again, or sent."""

    away = ""

    def renewed(self, task: TaskView) -> Order:
        if self.away == "renewed":
            raise Unreachable("the node is away")
        return super().renewed(task)

    def send(self, drafts: Sequence[Order], report: Report = silent) -> list[TaskView]:
        if self.away == "send":
            raise Unreachable("the node is away")
        return super().send(drafts, report)


class Poor(Lonely):
    """It cannot pay for the second one of two that are posted again."""

    count = 0

    def renewed(self, task: TaskView) -> Order:
        self.count += 1
        return replace(super().renewed(task), max_price=10**30 if self.count == 2 else task.order.max_price)


class Dying(Lonely):
    """Its process ends just before or just after an order is sent."""

    sent = False

    def send(self, drafts: Sequence[Order], report: Report = silent) -> list[TaskView]:
        if self.sent:
            super().send(drafts, report)
        raise Killed


@contextmanager
def served(data: Path, client: Client, **settings: Any) -> Iterator[TestClient]:
    """A service whose process ends with the block."""
    with assembled(Settings(data=data, **settings), client) as service:
        yield TestClient(create_app(service), base_url="http://localhost")


def test_fees_are_bounded_by_the_price(names: dict[str, str], client: Client, tmp_path: Path) -> None:
    def quoted(**terms: Any) -> tuple[int, dict[str, Any]]:
        inputs = {name: np.zeros(of.shape).tolist() for name, of in program.named(Role.INPUT).items()}
        answer = http.post("/v1/quotes", json={**names, "inputs": inputs, "terms": {**OFFER, **terms}})
        return answer.status_code, answer.json()

    program = client.program(names["program"])
    with served(tmp_path, client, max_price="0.05") as http:
        most = int(quoted()[1]["escrow"])
        for terms in ({"verifiers": 2}, {"verifiers": 4, "max_price": "0.03"}, {"check_fee": "0.2"}):
            status, problem = quoted(**terms)
            assert (status, problem["code"]) == (422, "TermsRefused")
        status, plan = quoted(verifiers=2, max_price="0.02")
        assert status == 200 and int(plan["escrow"]) <= most


@pytest.fixture(scope="module")
def names(net: Devnet, graph: GraphProgram, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Program and weights, in this machine's store."""
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_safetensors(path, {name: np.asarray(array) for name, array in graph.weights.items()})
    store = LocalStore()
    store.put(graph.to_bytes())
    store.put(path)
    return {"program": merkle.program_root(graph.to_bytes()).hex(), "weights": bindings_root(path).hex()}


@pytest.fixture
def body(names: dict[str, str]) -> dict[str, Any]:
    """A task with random inputs."""
    a, b = np.random.default_rng().standard_normal((2, 128), dtype=np.float32)
    coded = [base64.b64encode(array.tobytes()).decode() for array in (a, b)]
    inputs = {
        "a": {"dtype": "float32", "shape": [8, 16], "data": coded[0]},
        "b": {"dtype": "float32", "shape": [16, 8], "data": coded[1]},
    }
    return {**names, "inputs": inputs, "terms": OFFER}


def posted(client: Client) -> list[str]:
    """The tasks in the chain, in order."""
    events = client.chain.history.events(client.network.deployment.block)
    return [event.task.hex() for event in events if isinstance(event, Posted)]


def posts(client: Client, task: str) -> int:
    """How often a task is in the chain."""
    return posted(client).count(task)


def until(
    http: TestClient | httpx.Client, task: str, stages: str | tuple[str, ...], earlier: Sequence[str] = ()
) -> dict[str, Any]:
    """The task once it is at a stage, or one of several, after earlier tasks."""
    while True:
        seen: dict[str, Any] = http.get(f"/v1/tasks/{task}").json()
        if seen["stage"] in stages and seen.get("earlier", []) == list(earlier):
            return seen
        assert seen["stage"] in ("asked", "open"), seen
        time.sleep(0.05)


def expire(net: Devnet, *tasks: dict[str, Any]) -> None:
    """Goes on to blocks in which whoever follows open tasks ends them."""
    net.anvil.mine_past(max(task["order"]["accept_by"] for task in tasks) + GRACE)


def spent(http: TestClient | httpx.Client) -> int:
    """Wei that all tasks cost, or may still cost."""
    return int(float(http.get("/metrics").text.split("et_serve_spent_wei ")[-1].split()[0]))


def test_a_task_over_http_is_executed_by_a_stranger_and_costs_what_the_book_says(
    net: Devnet, operators: list[Party], client: Client, body: dict[str, Any], graph: GraphProgram, tmp_path: Path
) -> None:
    with served(tmp_path, Client(net.network)) as http:
        quote = http.post("/v1/quotes", json=body).json()
        assert quote["schema"] == "eigentensor.plan/1" and quote["affordable"]
        answer = http.post("/execute_graph_on_gpu", json=body)
        assert answer.status_code == 200, answer.text
        tensor, task = answer.json()["tensor"], answer.headers["eigentensor-task"]
        output = np.frombuffer(base64.b64decode(tensor["data"]), np.float32).reshape(8, 8)
        a, b = (np.frombuffer(base64.b64decode(body["inputs"][n]["data"]), np.float32) for n in "ab")
        expected = np.maximum(a.reshape(8, 16) @ b.reshape(16, 8) + np.arange(8, dtype=np.float32), 0)
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
        receipt = Receipt.from_bytes(http.get(answer.headers["eigentensor-receipt"]).content)
        assert receipt.task == task

        deadline = client.task(task).deadline
        assert deadline is not None
        net.anvil.mine_past(deadline)
        events = http.get(f"/v1/tasks/{task}/events").text  # ends when the task does
        assert events.rindex("event: final") > events.index("event: asked")
        view = http.get(f"/v1/tasks/{task}").json()
        assert view["state"] == "final" and view["price"] == answer.headers["eigentensor-price"]
        assert spent(http) == int(view["price"]) or view["checked"] != "unchecked"


@pytest.mark.slow
def test_who_waits_for_what_nobody_accepted_gets_the_result_of_the_task_that_it_is_posted_again_as(
    net: Devnet, operators: list[Party], client: Client, body: dict[str, Any], tmp_path: Path
) -> None:
    key = {"idempotency-key": "k"}
    serving = server_of(Settings(data=tmp_path, port=0, rate=1e6, retries=1), Shy(net.network))
    with serving as url, httpx.Client(base_url=url, timeout=300) as http, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.post, "/execute_graph_on_gpu", json=body, headers=key)
        while not (listed := http.get("/v1/tasks").json()["tasks"]):
            assert not waiting.done()
            time.sleep(0.05)
        first = until(http, listed[0]["task"], "open")
        expire(net, first)
        answer = waiting.result()
        assert answer.status_code == 200, answer.text
        second, name = answer.headers["eigentensor-task"], first["task"]
        assert second != name and answer.json()["earlier"] == answer.json()["task"]["earlier"] == [name]
        assert Receipt.from_bytes(http.get(answer.headers["eigentensor-receipt"]).content).task == second
        seen = [*http.get("/v1/tasks").json()["tasks"], *(http.get(f"/v1/tasks/{n}").json() for n in (name, second))]
        assert [(task["task"], task["earlier"]) for task in seen] == [(second, [name])] * 3
        assert http.post("/v1/tasks", json=body, headers=key).json()["task"] == name, "the key names the same"
        assert spent(http) == escrow_of(Order.from_json(first["order"]))

        deadline = client.task(second).deadline
        assert deadline is not None
        net.anvil.mine_past(deadline)
        events = http.get(f"/v1/tasks/{second}/events").text  # ends when the task does
        stages = re.findall(r"^event: (\S+)", events, re.MULTILINE)
        assert stages[:4] == ["asked", "open", "expired", "asked"] and stages[-1] == "final"
        assert spent(http) <= escrow_of(Order.from_json(first["order"]))
    assert posts(client, name) == posts(client, second) == 1


@pytest.mark.slow
@pytest.mark.parametrize("sent", [False, True], ids=["before", "after"])
def test_killed_around_the_second_post_the_same_order_is_sent_once_within_one_cap(
    net: Devnet, client: Client, body: dict[str, Any], tmp_path: Path, sent: bool
) -> None:
    once, before = body | {"terms": BRIEF}, len(posted(client))
    with served(tmp_path, Lonely(net.network), retries=1) as http:
        first = until(http, http.post("/v1/tasks", json=once).json()["task"], "open")
    name, cap = first["task"], escrow_of(Order.from_json(first["order"]))
    expire(net, first)
    while client.task(name).state is TaskState.OPEN:
        time.sleep(0.05)
    cut = Cut(net.network)
    cut.away = "renewed"
    with served(tmp_path, cut, retries=1) as http:
        assert http.get(f"/v1/tasks/{name}/result").json()["code"] == "NotYet", "it is going to be posted again"
        cut.away = "send"
        written = until(http, name, "asked", [name])
        problem = http.get(f"/v1/tasks/{name}/result").json()
        assert problem["code"] == "NotYet" and written["task"] in problem["detail"]
    assert len(posted(client)) == before + 1
    if sent:
        client.send([Order.from_json(written["order"])])
    with served(tmp_path, Lonely(net.network), budget=from_wei(cap * 3 // 2), retries=0) as http:
        second = until(http, name, "open", [name])
        assert second["task"] == written["task"] and spent(http) == cap
        assert http.post("/v1/tasks", json=once).json()["code"] == "BudgetSpent"
        expire(net, second)
        assert "event: expired" in http.get(f"/v1/tasks/{name}/events").text
        problem = http.get(f"/v1/tasks/{name}/result").json()
        assert problem["code"] == "NobodyAccepted" and second["task"] in problem["detail"]
        assert spent(http) == 0
    assert posted(client)[before:] == [name, second["task"]]


def test_one_that_cannot_be_paid_again_is_void_and_keeps_no_other_from_it(
    net: Devnet, client: Client, body: dict[str, Any], tmp_path: Path
) -> None:
    with served(tmp_path, Poor(net.network), retries=1) as http:
        tasks = [http.post("/v1/tasks", json=body | {"terms": BRIEF}).json()["task"] for _ in range(2)]
        expire(net, *(until(http, task, "open") for task in tasks))
        stages = {until(http, task, ("open", "void"), [task])["stage"] for task in tasks}
        assert stages == {"open", "void"}
        (void,) = (task for task in http.get("/v1/tasks").json()["tasks"] if task["stage"] == "void")
        problem = http.get(f"/v1/tasks/{void['task']}/result").json()
        assert problem["detail"] == f"task {void['task']} was never posted: nothing is spent"


def test_what_is_taken_back_is_not_posted_again(
    net: Devnet, client: Client, body: dict[str, Any], tmp_path: Path
) -> None:
    with served(tmp_path, Lonely(net.network), retries=3) as http:
        name = http.post("/v1/tasks", json=body | {"terms": BRIEF}).json()["task"]
        expire(net, until(http, name, "open"))
        second = until(http, name, "open", [name])["task"]
        assert http.post(f"/v1/tasks/{second}/cancel").json()["task"] == second
        assert http.get(f"/v1/tasks/{name}").json()["state"] == "cancelled"
        assert http.get(f"/v1/tasks/{name}/result").json()["code"] == "TaskCancelled"
    assert posted(client)[-1] == second


@pytest.mark.slow
@pytest.mark.parametrize("sent", [False, True], ids=["before", "after"])
def test_killed_around_the_post_the_same_key_pays_once(
    net: Devnet, client: Client, body: dict[str, Any], tmp_path: Path, sent: bool
) -> None:
    key, dying = {"idempotency-key": "k"}, Dying(net.network)
    dying.sent = sent
    with served(tmp_path, dying) as http, pytest.raises(Killed):
        http.post("/v1/tasks", json=body, headers=key)
    with served(tmp_path, Lonely(net.network)) as http:
        (waiting,) = http.get("/v1/tasks").json()["tasks"]
        task = http.post("/v1/tasks", json=body, headers=key).json()["task"]
        assert task == waiting["task"] and posts(client, task) == 1
        assert http.post("/v1/tasks", json=body, headers=key).json()["task"] == task
        assert len(http.get("/v1/tasks").json()["tasks"]) == 1 == posts(client, task)
        assert http.post(f"/v1/tasks/{task}/cancel").json()["state"] == "cancelled"


@contextmanager
def process(net: Devnet, data: Path) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """`eigentensor serve` as a process of its own, and its URL."""
    command = [sys.executable, "-m", "eigentensor_client", "serve", "--port", "0"]
    command += ["--data", str(data), "-n", str(net.path)]
    environment = os.environ | {"EIGENTENSOR_SERVE_RATE": "1000000"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as serving:
        assert serving.stderr is not None
        try:
            yield serving, next(url[0] for line in serving.stderr if (url := re.search(r"http://127[0-9.:]+", line)))
        finally:
            serving.kill()


@pytest.mark.slow
def test_a_process_killed_while_somebody_waits_finishes_the_same_task_afterwards(
    net: Devnet, operators: list[Party], client: Client, body: dict[str, Any], tmp_path: Path
) -> None:
    def execute(url: str) -> httpx.Response:
        return httpx.post(f"{url}/execute_graph_on_gpu", json=body, headers={"idempotency-key": "k"}, timeout=120)

    with process(net, tmp_path) as (serving, url), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(execute, url)
        while not httpx.get(f"{url}/v1/tasks", timeout=60).json()["tasks"]:
            assert not waiting.done()
        serving.kill()
        with pytest.raises(httpx.TransportError):
            waiting.result()
    with process(net, tmp_path) as (_, url):
        answer = execute(url)
        assert answer.status_code == 200, answer.text
        (task,) = httpx.get(f"{url}/v1/tasks").json()["tasks"]
    assert task["task"] == answer.headers["eigentensor-task"] and posts(client, task["task"]) == 1


@pytest.mark.slow
def test_a_budget_holds_over_restarts_and_what_comes_back_can_be_spent_again(
    net: Devnet, body: dict[str, Any], tmp_path: Path
) -> None:
    with served(tmp_path, Lonely(net.network)) as http:
        escrow = int(http.post("/v1/quotes", json=body).json()["escrow"])
    budget = from_wei(escrow * 3 // 2)
    with served(tmp_path, Lonely(net.network), budget=budget) as http:
        task = http.post("/v1/tasks", json=body).json()["task"]
    with served(tmp_path, Lonely(net.network), budget=budget) as http:
        blobs = len(list(LocalStore()))
        others = {"a": np.ones((8, 16)).tolist(), "b": np.ones((16, 8)).tolist()}
        refused = http.post("/v1/tasks", json=body | {"inputs": others})
        assert len(list(LocalStore())) == blobs, "nothing is uploaded that will not be paid for"
        assert refused.status_code == 402 and refused.json()["code"] == "BudgetSpent"
        assert refused.headers["content-type"] == "application/problem+json"
        assert http.post(f"/v1/tasks/{task}/cancel").json()["state"] == "cancelled"
        again = http.post("/v1/tasks", json=body)
        assert again.status_code == 202
        http.post(f"/v1/tasks/{again.json()['task']}/cancel")


@pytest.mark.slow
def test_a_task_that_the_chain_forgot_is_void_once_it_cannot_come_back(
    net: Devnet, body: dict[str, Any], tmp_path: Path
) -> None:
    with served(tmp_path, Dying(net.network)) as http, pytest.raises(Killed):
        http.post("/v1/tasks", json=body)
    (path,) = tmp_path.glob("*.sqlite")
    with closing(Ledger(path)) as ledger:
        [(_, job)] = ledger.jobs()
        response = ledger.last(job.task) | {"stage": "open"}  # as if it had been in a block
        ledger.record(job.task, response, state=State.OPEN)
    net.anvil.mine_past(Order.from_json(job.posted or {}).accept_by)
    with served(tmp_path, Lonely(net.network)) as http:
        assert "event: void" in http.get(f"/v1/tasks/{job.task}/events").text
        assert spent(http) == 0
