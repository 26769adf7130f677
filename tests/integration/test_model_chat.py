"""From a model's folder to a chat: deployed, asked in a terminal and by OpenAI's client, the answer of transformers."""

import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from eigentensor.errors import BindingError
from eigentensor_client.cli import main
from eigentensor_models.model import Model, load
from eigentensor_serve.apps.deployment import Here, deploy_local, read_named
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.chatting import Conversation
from support.stories.served import served_here
from support.vectors.gguf_models import FOLDER as GGUF
from support.vectors.model_texts import ANSWER, FOLDER

EXPECTED = json.loads((FOLDER / "qwen2" / "expected.json").read_text())
SAID = EXPECTED["chats"][0][0][0]["content"]


def eigentensor(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Apps, str]]:
    with served_here(tmp_path_factory.mktemp("home")) as (apps, url):
        parts = read_named(str(FOLDER / "qwen2"), Here(apps.store), None, None, None, apps, 128)
        deploy_local(apps, "qwen", parts)
        yield apps, url


def test_openais_client_has_the_answer_of_transformers(served: tuple[Apps, str]) -> None:
    with openai.OpenAI(base_url=f"{served[1]}/v1", api_key="none") as ai:
        whole = ai.chat.completions.create(
            model="qwen", messages=[{"role": "user", "content": SAID}], temperature=0, max_tokens=ANSWER
        )
        assert whole.choices[0].message.content == EXPECTED["text"]
        assert whole.usage is not None and whole.usage.prompt_tokens == len(EXPECTED["prompt"])
        plain = ai.completions.create(model="qwen", prompt=EXPECTED["prompt"], temperature=0, max_tokens=ANSWER)
        assert plain.choices[0].text == EXPECTED["text"]


def test_a_chat_goes_on_and_forgets_what_failed(served: tuple[Apps, str]) -> None:
    one = Conversation(served[1], "qwen", options={"temperature": 0, "max_tokens": 4})
    assert EXPECTED["text"].startswith("".join(one.ask(SAID)))
    assert [message["role"] for message in one.messages] == ["user", "assistant"]
    with pytest.raises(BindingError, match="do not fit"):
        list(one.ask("a " * 200))
    assert len(one.messages) == 2
    list(one.ask("And?"))
    assert len(one.messages) == 4 and one.proof["tasks"] == []


def test_a_gguf_file_writes_what_transformers_writes_with_it(served: tuple[Apps, str]) -> None:
    apps, url = served
    expected = json.loads((GGUF / "expected.json").read_text())["qwen2-q4_0"]
    parts = read_named(str(GGUF / "qwen2-q4_0.gguf"), Here(apps.store), None, None, None, apps, 64)
    deploy_local(apps, "small", parts)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as ai:
        plain = ai.completions.create(model="small", prompt=expected["prompt"], temperature=0, max_tokens=32)
    model = load(GGUF / "qwen2-q4_0.gguf", 64)
    assert isinstance(model, Model)
    end = next((n for n, token in enumerate(expected["tokens"]) if token in model.ends), 32)
    assert plain.choices[0].text == model.text.decode(expected["tokens"][:end])


def test_deploy_and_chat_are_two_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EIGENTENSOR_SERVE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "blobs"))
    monkeypatch.setenv("EIGENTENSOR_SERVE_PORT", "1")  # where nobody answers
    eigentensor("deploy", str(FOLDER / "qwen2"), "--name", "qwen", "--local", "--context", "128")
    assert "eigentensor chat qwen`" in capsys.readouterr().out
    words = ("chat", "qwen", SAID, "--temperature", "0", "--max-tokens", str(ANSWER))
    eigentensor(*words)
    assert capsys.readouterr().out == EXPECTED["text"] + "\n"
    eigentensor(*words, "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "eigentensor.answer/1" and answer["answer"] == EXPECTED["text"]
