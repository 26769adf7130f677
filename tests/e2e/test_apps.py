"""Deployed apps as paid tasks: each answer names its task, budgets hold, and a chat goes on from task to task."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

import language_model
from eigentensor import merkle, reference
from eigentensor.capture import GraphProgram
from eigentensor.chain import to_wei
from eigentensor.receipt import Receipt
from eigentensor.store import bindings_root, load_safetensors, save_safetensors
from eigentensor_client import byte_pairs
from eigentensor_client.cli import main
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, escrow
from eigentensor_client.writing import Sampling, Text
from eigentensor_local.devnet import Devnet, Party
from eigentensor_models import writing as models
from eigentensor_serve.apps.deployment import deploy_local, deploy_paid, read_named, read_parts, with_rows
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.settings import Settings
from language.decoder import Shape, drawn
from language.writing import writing
from support.stories.served import served
from support.vectors.model_texts import FOLDER

pytestmark = pytest.mark.slow

TERMS = Terms(to_wei("0.05"), exec=60, accept_within=100)


@pytest.fixture(scope="module")
def apps(home: Path) -> Apps:
    return Apps(home / "serve")


@pytest.fixture(scope="module")
def deploying(net: Devnet, apps: Apps) -> Iterator[Client]:
    with Client(net.network, store=apps.store) as client:
        yield client


@pytest.fixture(scope="module")
def url(net: Devnet, apps: Apps, operators: list[Party]) -> Iterator[str]:
    settings = Settings(data=apps.root.parent, port=0, budget="20")
    with served(settings, Client(net.network)) as url:
        yield url


def test_an_app_answers_with_a_paid_task_and_its_receipt_within_its_budget(
    url: str, apps: Apps, deploying: Client, graph: GraphProgram, tmp_path: Path
) -> None:
    save_safetensors(path := tmp_path / "w.safetensors", dict(graph.weights))
    parts = with_rows(read_parts(graph.program, str(path), None, None, apps), ["a"])
    once = escrow(deploying.network.deployment.parameters, replace(TERMS, check_rate=10**18))
    checked = replace(TERMS, check_rate=10**18)
    app, plan = deploy_paid(deploying, apps, "small", parts, checked, "checked", budget=once)
    assert plan.escrow == once
    a, b = np.random.default_rng(5).standard_normal((2, 8, 16), dtype=np.float32)
    body = {"inputs": {"a": a[:3].tolist(), "b": b.T.tolist()}}
    answer = httpx.post(f"{url}/v1/apps/small", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    assert answer.headers["eigentensor-state"].endswith("checked(1)")
    assert 0 < int(answer.headers["eigentensor-price"]) <= TERMS.max_price
    receipt = Receipt.from_bytes(httpx.get(url + answer.headers["eigentensor-receipt"], timeout=60).content)
    assert receipt.task == answer.headers["eigentensor-task"]
    values = answer.json()["outputs"]["output"]["values"]
    whole = httpx.get(f"{url}/v1/tasks/{receipt.task}/result", params={"whole": True}, timeout=60).content
    (tmp_path / "whole").write_bytes(whole)
    assert merkle.outputs_root(bindings_root(tmp_path / "whole"), merkle.bindings_root({})) == receipt.life.outputs_root
    output = load_safetensors(tmp_path / "whole")["output"]
    assert output.shape == (8, 8) and output[:3].tolist() == values
    padded = {"a": np.vstack([a[:3], np.zeros((5, 16), np.float32)]), "b": b.T, **graph.weights}
    assert reference.execute(graph.program, padded).outputs["output"].tobytes() == output.tobytes()
    again = httpx.post(f"{url}/v1/apps/small", json=body, timeout=300)
    assert (again.status_code, again.json()["code"]) == (402, "BudgetSpent"), again.text
    assert httpx.get(f"{url}/v1/apps/small").json()["version"] == app.version
    assert "a paid task for at most 0.05" in httpx.get(f"{url}/apps/small").text


def test_an_app_of_another_place_is_not_paid_for(url: str, apps: Apps, graph: GraphProgram, tmp_path: Path) -> None:
    save_safetensors(path := tmp_path / "w.safetensors", dict(graph.weights))
    deploy_local(apps, "here", read_parts(graph.program, str(path), None, None, apps))
    answer = httpx.post(f"{url}/v1/apps/here", json={"inputs": {}})
    assert answer.status_code == 501
    assert "this machine alone" in answer.json()["detail"]


def test_a_chat_in_paid_tasks_says_what_the_program_says_here(
    url: str, apps: Apps, deploying: Client, tmp_path: Path
) -> None:
    pairs = byte_pairs.trained("a program, a task, a trace\n", 270)
    shape = Shape(2, 24, 4, 2, 6, 32, pairs.size, context=150, window=5, full_every=2)
    graph, sampling = writing(drawn(shape)), Sampling(0.9, least=0.01, seed=4)
    (tmp_path / "tokenizer.json").write_bytes(pairs.to_bytes())
    (tmp_path / "model.json").write_text(
        '{"schema": "eigentensor.model/1", "kind": "chat", "tokenizer": "tokenizer.json", "step": 12}'
    )
    for word, tensors in (("weights", graph.weights), ("states", graph.states)):
        save_safetensors(tmp_path / word, dict(tensors))
    words = (str(tmp_path / "weights"), str(tmp_path / "states"), tmp_path / "model.json")
    deploy_paid(deploying, apps, "page", read_parts(graph.program, *words, apps), TERMS)
    here = Text(pairs, shape.context, language_model.here(graph))
    expected = here.write("a program", 24, sampling).removeprefix("a program")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=600) as ai:
        asked: dict[str, Any] = {
            "model": "page", "messages": [{"role": "user", "content": "a program"}], "max_tokens": 24,
            "temperature": 0.9, "seed": 4, "extra_body": {"min_p": 0.01},
        }  # fmt: skip
        whole = ai.chat.completions.create(**asked)
        content, tasks = whole.choices[0].message.content, whole.model_extra["eigentensor"]["tasks"]
        assert expected.startswith(content)
        assert len(tasks) == -(-whole.usage.completion_tokens // 12)
        receipts = [Receipt.from_bytes(httpx.get(url + task["receipt"], timeout=60).content) for task in tasks]
        assert [receipt.task for receipt in receipts] == [task["task"] for task in tasks]
        chunks = list(ai.chat.completions.create(**asked, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == content
        assert len(chunks[-1].model_extra["eigentensor"]["tasks"]) == len(tasks)


@pytest.mark.timeout(1200)
def test_a_long_prompt_is_a_paid_task_of_its_own_and_each_task_is_checked_and_proven(
    url: str, apps: Apps, deploying: Client, net: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The program that reads is accepted, executed, re-executed by a verifier, and its receipt proven by executing it
    again; the one that writes goes on from the states that it left."""
    monkeypatch.setattr(models, "CHUNK", 20)
    expected = json.loads((FOLDER / "qwen2" / "expected.json").read_text())
    parts = read_named(str(FOLDER / "qwen2"), deploying.gateway, None, None, None, apps, 128)
    app, _ = deploy_paid(
        deploying, apps, "qwen", parts, replace(TERMS, accept_within=1000, check_rate=10**18), "checked"
    )
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=1200) as ai:
        answer: Any = ai.chat.completions.create(
            model="qwen", messages=expected["chats"][0][0], temperature=0, max_tokens=6
        )
    content, tasks = answer.choices[0].message.content, answer.model_extra["eigentensor"]["tasks"]
    assert content and expected["text"].startswith(content)
    receipts = [httpx.get(url + task["receipt"], timeout=60).content for task in tasks]
    programs = [Receipt.from_bytes(receipt).order.program.hex() for receipt in receipts]
    assert programs == [app.reader, app.program], "51 tokens in chunks, with the one that follows them; then the rest"
    for number, receipt in enumerate(receipts):
        (path := tmp_path / f"{number}.receipt").write_bytes(receipt)
        with pytest.raises(SystemExit) as ended:
            main(["receipt", "check", str(path), "--deep", "--network", str(net.network.name)])
        out = " ".join(capsys.readouterr().out.split())
        assert not ended.value.code and "checked(1)" in out and "executed again" in out, out
