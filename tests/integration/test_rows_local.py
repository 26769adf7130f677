"""An app whose rows are free, and the commands that its page, `deploy` and OpenAPI name: run as they are."""

import json
import os
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import merkle
from eigentensor.capture import capture
from eigentensor.store import bindings_root, load_safetensors, save_safetensors
from eigentensor.task import NONE
from eigentensor_client.cli import main
from eigentensor_client.files import write_whole
from eigentensor_serve.apps.deployment import deploy_local, read_parts, with_rows
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens
from support.stories.served import served

RANDOM = np.random.default_rng(4)
W = Tensor(RANDOM.standard_normal((40, 3), dtype=np.float32), device="CPU").realize()
X = RANDOM.standard_normal((16, 40), dtype=np.float32)


def net(x: Tensor, scale: Tensor) -> dict[str, Tensor]:
    return {"scores": (x @ W).softmax() * scale, "scale": scale + 1}


@pytest.fixture(scope="module")
def app(apps: Apps) -> str:
    graph = capture(net, {"x": X, "scale": np.float32(1)})
    save_safetensors(path := apps.root.parent / "w.safetensors", dict(graph.weights))
    deploy_local(apps, "net", with_rows(read_parts(graph.program, str(path), None, None, apps), ["x"]))
    return "net"


def asked(url: str, x: Any, **how: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/apps/net", json={"inputs": {"x": x, "scale": 2}}, **how)


def test_a_row_has_the_same_bits_in_every_request(url: str, app: str) -> None:
    whole = np.array(asked(url, X.tolist()).json()["outputs"]["scores"]["values"], np.float32)
    assert whole.shape == (16, 3)
    for rows in (slice(0, 1), slice(3, 9), slice(15, 16)):
        answer = asked(url, X[rows].tolist())
        assert answer.status_code == 200, answer.text
        outputs = answer.json()["outputs"]
        assert outputs["scores"]["shape"] == [len(X[rows]), 3] and outputs["scale"]["values"] == 3
        assert np.array(outputs["scores"]["values"], np.float32).tobytes() == whole[rows].tobytes()
        assert answer.headers["eigentensor-rows"] == str(len(X[rows]))


def test_a_file_of_some_rows_is_answered_with_one(url: str, app: str, tmp_path: Path) -> None:
    save_safetensors(tmp_path / "in", {"x": X[:5], "scale": np.asarray(np.float32(2))})
    kind = {"content-type": "application/octet-stream"}
    answer = httpx.post(f"{url}/v1/apps/net", content=(tmp_path / "in").read_bytes(), headers=kind)
    assert answer.status_code == 200, answer.text
    task = f"{url}/v1/tasks/{answer.headers['eigentensor-task']}/result"
    for data, rows in (
        (answer.content, 5), (httpx.get(task).content, 5), (httpx.get(task, params={"whole": True}).content, 16),
    ):  # fmt: skip
        file = write_whole(tmp_path / "out", lambda path, data=data: path.write_bytes(data))  # type: ignore[misc]
        assert load_safetensors(file)["scores"].shape == (rows, 3)
    root = httpx.get(f"{url}/v1/tasks/{answer.headers['eigentensor-task']}").json()["outputs_root"]
    assert merkle.outputs_root(bindings_root(file), NONE).hex() == root, "which is of all rows"


def test_too_many_rows_and_none_are_refused_and_the_schema_says_so(url: str, app: str) -> None:
    for x, says in (([], "0 rows"), ([[0] * 40] * 17, "17 rows, in a request there are 1 to 16")):
        answer = asked(url, x)
        assert (answer.status_code, answer.json()["code"]) == (422, "BindingError") and says in answer.json()["detail"]
    described = httpx.get(f"{url}/v1/apps/net").json()
    assert described["rows"] == {"count": 16, "inputs": ["x"], "outputs": ["scores"]}
    validator = jsonschema_rs.Draft202012Validator(described["input"])
    assert [validator.is_valid({"inputs": {"x": [[0] * 40] * n, "scale": 0}}) for n in (0, 1, 16, 17)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_the_same_key_is_one_task_for_the_same_rows_alone(url: str, app: str) -> None:
    key = {"idempotency-key": "rows"}
    first, again = (asked(url, X[:1].tolist(), headers=key) for _ in range(2))
    assert first.headers["eigentensor-task"] == again.headers["eigentensor-task"]
    assert again.json()["outputs"]["scores"]["shape"] == [1, 3]
    padded = [*X[:1].tolist(), [0] * 40]
    assert asked(url, padded, headers=key).json()["code"] == "KeyReused"


class Commands(HTMLParser):
    """What stands between `code` tags."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.texts = False, list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.inside = tag == "code"

    def handle_data(self, data: str) -> None:
        if self.inside and data.startswith("curl"):
            self.texts.append(data)


def ran(command: str, **environment: str) -> Any:
    """What a person gets who types a command into a shell, in a folder where there is nothing."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def large(apps: Apps) -> str:
    """An app that takes more than a page shows."""
    graph = capture(lambda x: x.sum(1), {"x": np.zeros((2, 90_000), np.float32)})
    deploy_local(apps, "large", read_parts(graph.program, None, None, None, apps))
    return "large"


@pytest.mark.parametrize(("name", "output", "shape"), [("net", "scores", [1, 3]), ("large", "output", [2])])
def test_the_commands_of_pages_and_documents_run_as_they_are(
    name: str, output: str, shape: list[int], url: str, app: str, large: str
) -> None:
    parser = Commands()
    parser.feed(httpx.get(f"{url}/apps/{name}").text)
    document = httpx.get(f"{url}/v1/apps/{name}/openapi.json").json()
    operation = document["paths"][f"/v1/apps/{name}"]["post"]
    (sample,) = operation["x-codeSamples"]
    commands = [*parser.texts, sample["source"], httpx.get(f"{url}/v1/apps/{name}").json()["curl"]]
    assert len(commands) == 3 and len(set(commands)) == 1
    answer = ran(commands[0])
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema_rs.Draft202012Validator(schema).validate(answer)
    assert answer["outputs"][output]["shape"] == shape
    body = operation["requestBody"]["content"]["application/json"]
    assert ("example" in body) is (name == "net")
    if "example" in body:
        jsonschema_rs.Draft202012Validator(body["schema"]).validate(body["example"])
        assert httpx.post(f"{document['servers'][0]['url']}/v1/apps/{name}", json=body["example"]).status_code == 200


def test_the_command_for_any_app_in_the_services_document_runs_as_it_is(url: str, app: str, large: str) -> None:
    (sample,) = httpx.get(f"{url}/openapi.json").json()["paths"]["/v1/apps/{name}"]["post"]["x-codeSamples"]
    for name in (app, large):
        assert ran(sample["source"], URL=url, APP=name)["schema"] == "eigentensor.result/1"


def test_the_command_that_deploy_prints_runs_as_it_is_with_a_token_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "blobs"))
    graph = capture(lambda x: x * 2, {"x": X})
    Path("double.program").write_bytes(graph.to_bytes())
    settings = Settings(local=True, data=tmp_path / "data", rate=1e6, port=0)
    with served(settings) as url:
        monkeypatch.setenv("EIGENTENSOR_SERVE_PORT", url.rpartition(":")[2])
        deploy = ["deploy", "double.program", "--name", "double", "--local", "--data", str(settings.data)]
        for has_token in (False, True):
            token = {"TOKEN": Tokens(settings.tokens).new("me")} if has_token else {}
            with pytest.raises(SystemExit) as ended:
                main([*deploy, "--rows", "x"])
            *_, line = capsys.readouterr()[0].splitlines()
            assert not ended.value.code and line.startswith("curl ") and ("$TOKEN" in line) is has_token
            assert ran(line, **token)["outputs"]["output"]["shape"] == [1, 40]
    with pytest.raises(SystemExit) as ended:
        main([*deploy, "--rows", "y"])
    assert ended.value.code == 2 and "no input 'y'" in capsys.readouterr()[1]
