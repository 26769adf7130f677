"""Several callers of one `eigentensor serve --local`: each has tasks of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from eigentensor.capture import TensorContext
from eigentensor_serve.apps.deployment import deploy_local, read_parts
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens

ASKED = {"inputs": {"x": [1, 2, 3, 4]}}
PAGE = "https://shop.example"
Caller = dict[str, str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With one app, `double`."""
    home = tmp_path_factory.mktemp("serve")
    context = TensorContext()
    graph = context.compile_to_graph(context.add_graph_input("x", (4,)) * 2)
    deploy_local(Apps(home), "double", read_parts(graph.program, None, None, None, Apps(home)))
    return home


@pytest.fixture(scope="module")
def http(home: Path) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EIGENTENSOR_CACHE_DIR", str(home / "blobs"))
        with assembled(Settings(local=True, data=home, rate=1e6, origins=(PAGE,))) as service:
            yield TestClient(create_app(service), base_url="http://localhost")


@pytest.fixture(scope="module")
def alice(home: Path) -> Caller:
    return {"authorization": f"Bearer {Tokens(home / 'tokens.json').new('alice')}"}


@pytest.fixture(scope="module")
def bob(home: Path) -> Caller:
    return {"authorization": f"Bearer {Tokens(home / 'tokens.json').new('bob')}"}


def test_nobody_sees_or_takes_back_the_tasks_of_another(http: TestClient, alice: Caller, bob: Caller) -> None:
    answer = http.post("/v1/apps/double", json=ASKED, headers=alice)
    assert answer.status_code == 200, answer.text
    task = answer.headers["eigentensor-task"]
    assert http.get(f"/v1/tasks/{task}/result", headers=alice).status_code == 200
    for word in ("", "/result", "/events", "/explain", "/receipt"):
        refused = http.get(f"/v1/tasks/{task}{word}", headers=bob)
        unknown = http.get(f"/v1/tasks/{'0' * 64}{word}", headers=bob)
        assert (refused.status_code, refused.json()["code"]) == (404, "TaskNotFound"), word
        assert refused.text.replace(task, "0" * 64) == unknown.text, "nor whether there is one"
    assert http.post(f"/v1/tasks/{task}/cancel", headers=bob).status_code == 404
    listed = [[entry["task"] for entry in http.get("/v1/tasks", headers=who).json()["tasks"]] for who in (alice, bob)]
    assert listed == [[task], []]


def test_a_key_of_one_caller_is_nothing_to_another(http: TestClient, alice: Caller, bob: Caller) -> None:
    tasks = {
        http.post("/v1/apps/double", json=ASKED, headers={**who, "idempotency-key": "k"}).headers["eigentensor-task"]
        for who in (alice, bob, alice)
    }
    assert len(tasks) == 2


BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_is_asked_for_a_token_and_learns_nothing_without_one(http: TestClient, alice: Caller) -> None:
    asked = http.get("/apps/double", headers=BROWSER)
    assert asked.status_code == 401 and asked.headers["content-type"].startswith("text/html")
    assert asked.headers["content-security-policy"].startswith("default-src 'none'")
    assert asked.text.replace("double", "nothing") == http.get("/apps/nothing", headers=BROWSER).text
    for path, headers in (
        ("/v1/apps/double", BROWSER),
        ("/apps/double", {}),
        ("/apps/double", {**BROWSER, "authorization": "Bearer et_wrong"}),
        ("/apps/double", {"cookie": "eigentensor-pages=wrong"}),
    ):
        refused = http.get(path, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (401, "Unauthorized")
    page = http.get("/apps/double", headers={**BROWSER, **alice})
    assert page.status_code == 200 and "Bearer $TOKEN" in page.text


def test_a_cookie_reads_what_its_holder_may_and_spends_nothing(http: TestClient, alice: Caller, bob: Caller) -> None:
    task = http.post("/v1/apps/double", json=ASKED, headers=alice).headers["eigentensor-task"]
    cookies = []
    for who in (alice, bob):
        token = who["authorization"].removeprefix("Bearer ")
        signed = http.post("/sign-in?to=//shop.example", data={"token": token}, follow_redirects=False)
        assert (signed.status_code, signed.headers["location"]) == (303, "/"), "nobody is led elsewhere"
        cookies.append({"cookie": signed.headers["set-cookie"].partition(";")[0]})
        assert token not in signed.headers["set-cookie"]
        http.cookies.clear()
    of_alice, of_bob = cookies
    assert task in http.get(f"/tasks/{task}", headers={**BROWSER, **of_alice}).text
    assert http.get(f"/tasks/{task}/receipt", headers=of_alice).status_code == 400, "executed here"
    for path in (f"/tasks/{task}", f"/tasks/{task}/receipt"):
        assert http.get(path, headers=of_bob).json()["code"] == "TaskNotFound"
    assert task not in http.get("/tasks", headers=of_bob).text
    routes = [
        (path, verb)
        for path, verbs in http.get("/openapi.json", headers=alice).json()["paths"].items()
        for verb in verbs
    ]
    changing = [(path, verb) for path, verb in routes if verb != "get"]
    assert len(changing) >= 8
    for path, verb in changing:
        path = path.replace("{name}", "double").replace("{version}", "1").replace("{task}", task)
        refused = http.request(verb, path, json=ASKED, headers=of_alice)
        assert refused.status_code == 401, (verb, path)


def test_pages_of_allowed_origins_may_read_what_headers_say(http: TestClient, alice: Caller) -> None:
    asks = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "x-stainless-os"}
    assert http.options("/v1/chat/completions", headers=asks).status_code == 200
    answer = http.post("/v1/apps/double", json=ASKED, headers={**alice, "origin": PAGE})
    assert "EigenTensor-Receipt" in answer.headers["access-control-expose-headers"]
