"""Apps behind `eigentensor serve --local`: versions, schemas, pages."""

import shutil

import httpx
import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor.capture import TensorContext
from eigentensor.store import LocalStore, save_safetensors
from eigentensor_serve.apps.deployment import deploy_local, read_parts
from eigentensor_serve.apps.registry import Apps

BIAS = np.array([1, -2, 0.5, 4], np.float32)


@pytest.fixture(scope="module")
def added(apps: Apps) -> str:
    """x · 2 + bias, twice: the second version has no bias."""
    for bias in (BIAS, 0 * BIAS):
        context = TensorContext()
        x, b = context.add_graph_input("x", (4,)), context.add_weight("bias", Tensor(bias))
        graph = context.compile_to_graph(x * 2 + b)
        save_safetensors(path := apps.root.parent / "bias.safetensors", dict(graph.weights))
        deploy_local(apps, "added", read_parts(graph.program, str(path), None, None, apps))
    return "added"


def test_an_app_says_what_it_takes_and_answers_its_own_example(url: str, added: str) -> None:
    description = httpx.get(f"{url}/v1/apps/{added}").json()
    assert (description["version"], description["versions"], description["served"]) == (2, [1, 2], 2)
    assert description["outputs"][0] == {"name": "output", "dtype": "float32", "shape": [4]}
    answer = httpx.post(f"{url}/v1/apps/{added}", json=description["example"])
    assert answer.status_code == 200, answer.text
    assert answer.headers["eigentensor-state"] == "local"
    assert "eigentensor-receipt" not in answer.headers
    assert [app["name"] for app in httpx.get(f"{url}/v1/apps").json()["apps"]].count(added) == 1


def test_any_version_answers_and_what_is_served_changes_at_once(url: str, added: str, apps: Apps) -> None:
    def asked(path: str) -> list[float]:
        answer = httpx.post(f"{url}/v1/apps/{path}", json={"inputs": {"x": [1, 2, 3, 4]}})
        values: list[float] = answer.json()["tensor"]["values"]
        return values

    doubled = [2.0, 4.0, 6.0, 8.0]
    assert asked(added) == asked(f"{added}/versions/2") == doubled
    assert asked(f"{added}/versions/1") == (np.array(doubled) + BIAS).tolist()
    apps.rollback(added)
    assert asked(added) == (np.array(doubled) + BIAS).tolist()
    apps.rollback(added, 2)
    assert asked(added) == doubled


def test_an_app_lies_on_the_disk_once_and_outlives_the_cache(url: str, added: str, apps: Apps) -> None:
    def answer() -> httpx.Response:
        return httpx.post(f"{url}/v1/apps/{added}/versions/1", json={"inputs": {"x": [1, 2, 3, 4]}})

    cache, weights = LocalStore(), apps.get(added, 1).weights
    assert weights is not None and answer().status_code == 200
    assert cache.path(weights).samefile(apps.store.path(weights))
    shutil.rmtree(cache.root)
    assert answer().status_code == 200
    assert weights in cache


def test_wrong_requests_to_an_app_are_problems(url: str, added: str) -> None:
    for path, body, status, code in (
        ("nothing", {"inputs": {}}, 404, "AppNotFound"),
        (f"{added}/versions/9", {"inputs": {}}, 404, "AppNotFound"),
        (added, {"inputs": {"x": [1, 2]}}, 422, "BindingError"),
        (added, {"inputs": {}}, 422, "BindingError"),
        (added, {"x": [1, 2, 3, 4]}, 400, "BadRequest"),
    ):
        answer = httpx.post(f"{url}/v1/apps/{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


def test_an_app_names_its_page(url: str, added: str) -> None:
    docs = httpx.get(f"{url}/v1/apps/{added}").json()["docs"]
    answer = httpx.get(f"{url}{docs}")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert "nothing is paid" in answer.text
