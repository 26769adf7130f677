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


def test_a_browser_is_asked_for_a_token_and_learns_nothing_without_one(http: TestClient, alice: Caller) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    asked = http.get("/v1/apps/double/docs", headers=browser)
    assert asked.status_code == 401 and asked.headers["content-type"].startswith("text/html")
    assert asked.headers["content-security-policy"].startswith("default-src 'none'")
    assert asked.text == http.get("/v1/apps/nothing/docs", headers=browser).text
    for path, headers in (
        ("/v1/apps/double", browser),
        ("/v1/apps/double/docs", {}),
        ("/v1/apps/double/docs", {**browser, "authorization": "Bearer et_wrong"}),
    ):
        refused = http.get(path, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (401, "Unauthorized")
    page = http.get("/v1/apps/double/docs", headers={**browser, **alice})
    assert page.status_code == 200 and "Bearer $TOKEN" in page.text
    # The page that is opened is written into the one that asked, whose policy must let it run.
    assert page.headers["content-security-policy"] == asked.headers["content-security-policy"]


def test_pages_of_allowed_origins_may_read_what_headers_say(http: TestClient, alice: Caller) -> None:
    asks = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "x-stainless-os"}
    assert http.options("/v1/chat/completions", headers=asks).status_code == 200
    answer = http.post("/v1/apps/double", json=ASKED, headers={**alice, "origin": PAGE})
    assert "EigenTensor-Receipt" in answer.headers["access-control-expose-headers"]
