"""Apps in a folder: versions that never change, one of which is served; what they say of themselves."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import AppNotFound, BindingError, BlobNotFound, ConfigError
from eigentensor.store import LocalStore, save_safetensors
from eigentensor.task.order import Domain
from eigentensor_client.byte_pairs import BytePairs, trained
from eigentensor_client.cli import main
from eigentensor_client.orders import Terms
from eigentensor_serve.apps import schema as apps_schema
from eigentensor_serve.apps.deployment import deploy_local, read_parts
from eigentensor_serve.apps.models import Chat, Embeddings, model_from_json, read_model
from eigentensor_serve.apps.registry import App, Apps, Market

PAIRS = trained("a program, a task, a trace\n" * 3, 270)


def an_app(name: str = "digits", program: str = "ab" * 32) -> App:
    return App(name, 0, "2026-11-22T10:00:00Z", program)


@pytest.fixture
def apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apps:
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    return Apps(tmp_path / "serve")


def scaled(x: Any, scale: Any) -> Any:
    return x * scale


@pytest.fixture(scope="module")
def graph() -> GraphProgram:
    x = np.zeros((2, 3), np.float32)
    return capture(scaled, {"x": x, "scale": np.zeros((), np.int32)}, {}, fingerprint=False)


def test_the_newest_version_is_served_until_it_is_rolled_back(apps: Apps) -> None:
    first = apps.add(an_app())
    second = apps.add(an_app(program="cd" * 32))
    assert (first.version, second.version) == (1, 2)
    assert apps.get("digits") == second
    assert apps.get("digits", 1) == first
    assert apps.rollback("digits") == first == apps.get("digits")
    assert apps.rollback("digits", 2) == second == apps.get("digits")
    assert apps.add(an_app()).version == 3
    assert [one.version for one in apps.list()] == [3]


def test_what_is_not_there_is_said(apps: Apps) -> None:
    assert apps.list() == []
    for wrong in ("digits", "..", "Digits", "a/b", ""):
        with pytest.raises(AppNotFound):
            apps.get(wrong)
        with pytest.raises(AppNotFound):
            apps.remove(wrong)
    apps.add(an_app())
    with pytest.raises(AppNotFound, match="no version before 1"):
        apps.rollback("digits")
    with pytest.raises(AppNotFound, match="no version 7"):
        apps.rollback("digits", 7)
    assert apps.get("digits").version == 1


@pytest.mark.parametrize("name", ["Digits", "a_b", "-a", "a-", "", "a" * 64, "../x", ".store", "ä"])
def test_a_name_is_a_part_of_a_url(apps: Apps, name: str) -> None:
    with pytest.raises(BindingError, match="no name for an app"):
        apps.add(an_app(name))


def test_two_that_deploy_at_once_make_two_versions(apps: Apps) -> None:
    made: list[int] = []
    threads = [threading.Thread(target=lambda: made.append(apps.add(an_app()).version)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(range(1, 9)) == apps.versions("digits")


def test_a_broken_file_is_no_traceback(apps: Apps) -> None:
    apps.add(an_app())
    for text in ("", "[]", "{}", '{"schema": "eigentensor.app/1"}', '{"schema": "another"}'):
        (apps.root / "digits" / "1.json").write_text(text)
        with pytest.raises(ConfigError, match="cannot be read"):
            apps.get("digits")
    (apps.root / "digits" / "current").write_text("x")
    with pytest.raises(ConfigError):
        apps.get("digits")


def test_a_removed_app_takes_along_what_no_other_is_made_of(apps: Apps) -> None:
    shared, own = apps.store.put(b"shared"), apps.store.put(b"own")
    apps.add(replace(an_app("one", shared), weights=own))
    apps.add(an_app("other", shared))
    apps.remove("one")
    assert [one.name for one in apps.list()] == ["other"]
    assert shared in apps.store
    assert own not in apps.store
    with pytest.raises(AppNotFound):
        apps.get("one")


def test_an_app_is_read_as_it_was_written(apps: Apps) -> None:
    market = Market("sepolia", Domain(11155111, "0x" + "ab" * 20))
    model = Chat("ef" * 32, {"user": "> {content}\n"}, "< ", step=4, end=3)
    terms = Terms(5 * 10**16, 10**16, ramp=3, value_at_risk=10**18)
    whole = replace(
        an_app(), model=model, market=market, terms=terms, stage="checked", budget=10**19, weights="12" * 32
    )
    assert apps.get(apps.add(whole).name) == replace(whole, version=1)
    embeddings = replace(an_app(), model=Embeddings("ef" * 32, "first", normalise=False))
    assert App.from_json(json.loads(json.dumps(embeddings.to_json()))) == embeddings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "chat"}, "tokenizer"),
        ({"kind": "poem", "tokenizer": "x"}, "poem"),
        ({"kind": "chat", "tokenizer": 3}, "tokenizer is not of type str"),
        ({"kind": "chat", "tokenizer": "x", "temperature": 1}, "no temperature"),
        ({"kind": "chat", "tokenizer": "x", "turns": {"cat": "{content}"}}, "cat"),
        ({"kind": "chat", "tokenizer": "x", "turns": {"user": "nothing"}}, "content"),
        ({"kind": "chat", "tokenizer": "x", "step": 0}, "at least one"),
        ({"kind": "embeddings", "tokenizer": "x", "pooling": "max"}, "pooling is one of"),
    ],
)
def test_a_wrong_model_file_says_what_is_wrong(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        model_from_json(values)
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"schema": "eigentensor.model/1", **values}))
    with pytest.raises(ConfigError, match=message):
        read_model(path)


def test_programs_that_do_not_fit_a_model_are_refused(graph: GraphProgram) -> None:
    for model in (Chat("x"), Embeddings("x")):
        with pytest.raises(BindingError):
            model.fit(graph.program, PAIRS)


def test_deploying_keeps_everything_in_the_store(apps: Apps, graph: GraphProgram, tmp_path: Path) -> None:
    app = deploy_local(apps, "scaled", read_parts(graph.program, None, None, None, apps))
    assert app == apps.get("scaled")
    assert apps.store.read(app.program) == graph.to_bytes()
    assert (app.program, app.weights, app.states) == (graph.uuid, None, None)
    with pytest.raises(BlobNotFound, match="neither a file nor a uuid"):
        read_parts(graph.program, "nowhere", None, None, apps)
    with pytest.raises(BindingError, match="no weights"):
        deploy_local(apps, "scaled", read_parts(graph.program, "12" * 32, None, None, apps))
    save_safetensors(tmp_path / "w.safetensors", {"w": np.zeros(2, np.float32)})
    with pytest.raises(BindingError, match="unknown w"):
        deploy_local(apps, "scaled", read_parts(graph.program, str(tmp_path / "w.safetensors"), None, None, apps))
    assert apps.versions("scaled") == [1]


def test_weights_are_named_by_the_uuid_that_the_cache_knows(apps: Apps, tmp_path: Path) -> None:
    class Model:
        def __init__(self) -> None:
            from tinygrad import Tensor

            self.w = Tensor(np.arange(3, dtype=np.float32))

        def __call__(self, x: Any) -> Any:
            return x + self.w

    model = Model()
    graph = capture(model, {"x": np.zeros(3, np.float32)}, model, fingerprint=False)
    save_safetensors(tmp_path / "w.safetensors", graph.weights)
    with pytest.raises(BindingError, match="missing w"):
        deploy_local(apps, "added", read_parts(graph.program, None, None, None, apps))
    cache = LocalStore()
    root = cache.names(cache.put(tmp_path / "w.safetensors")).computed or ""
    with pytest.raises(BlobNotFound, match="neither at the gateway nor"):
        deploy_local(apps, "added", read_parts(graph.program, "12" * 32, None, None, apps))
    named = deploy_local(apps, "added", read_parts(graph.program, root, None, None, apps))
    loaded = deploy_local(apps, "added", read_parts(graph.program, str(tmp_path / "w.safetensors"), None, None, apps))
    assert (named.weights, loaded.weights) == (root, root)
    cache.discard(root)
    assert root in apps.store


def test_the_schema_admits_its_example_and_refuses_other_shapes(graph: GraphProgram) -> None:
    schema = apps_schema.input_schema(graph.program)
    validator = jsonschema_rs.Draft202012Validator(schema)
    example = apps_schema.example(graph.program)
    assert validator.is_valid(example)
    packed = {"dtype": "float32", "shape": [2, 3], "data": "AAAA"}
    assert validator.is_valid({"inputs": {"x": packed, "scale": 3}})
    for wrong in (
        {"x": [[0, 0, 0]], "scale": 1},
        {"x": [[0, 0, 0]] * 2},
        {"x": [[0, 0, 0]] * 2, "scale": 0.5},
        {"x": [[0, 0, 0]] * 2, "scale": 1 << 31},
        {"x": {**packed, "dtype": "int32"}, "scale": 1},
        {"x": [[0, 0, 0]] * 2, "scale": 1, "y": 1},
    ):
        assert not validator.is_valid({"inputs": wrong})


def test_a_tokenizer_file_is_read_as_it_was_written_and_others_are_refused() -> None:
    assert BytePairs.from_bytes(PAIRS.to_bytes()) == PAIRS
    for wrong in (b"", b"[]", b'{"schema": "x", "merges": []}', PAIRS.to_bytes().replace(b"[[", b"[[9999,1],["),
                  b'{"schema": "eigentensor.byte-pairs/1", "merges": [[true, 5]]}'):  # fmt: skip
        with pytest.raises(ConfigError, match="not a tokenizer"):
            BytePairs.from_bytes(wrong)


def test_the_verbs_deploy_show_and_forget_an_app(
    apps: Apps, graph: GraphProgram, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EIGENTENSOR_SERVE_DATA", str(apps.root.parent))
    (tmp_path / "x.program").write_bytes(graph.to_bytes())

    def output(*words: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == code, err
        return out if not code else err

    deploy = ("deploy", str(tmp_path / "x.program"), "--name", "scaled", "--local")
    assert json.loads(output(*deploy, "--json"))["version"] == 1
    assert "version 2" in output(*deploy)
    assert "nothing is paid" in output(*deploy, "--max-price", "1", code=2)
    assert "2 of 2" in output("app", "list")
    assert "version 1 now" in output("app", "rollback", "scaled")
    assert "1, served, 2" in output("app", "show", "scaled")
    assert json.loads(output("app", "show", "scaled", "--version", "2", "--json"))["served"] == 1
    assert "no version 3" in output("app", "rollback", "scaled", "--to", "3", code=4)
    assert "2 versions" in output("app", "remove", "scaled")
    assert "there is no app" in output("app", "show", "scaled", code=4)
    assert output("app", "list") == "nothing is deployed\n"
