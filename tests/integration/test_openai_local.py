"""OpenAI's own client against the models of `eigentensor serve --local`."""

import asyncio
import json
import runpy
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

import language_model
from eigentensor.capture import GraphProgram, TensorContext
from eigentensor_client.cli import main
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling, Step, Text
from eigentensor_serve.apps.deployment import Here, deploy_local, read_named, read_parts
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.openai.decoding import CHATS, Values
from eigentensor_serve.openai.here import Here as LocalText
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens
from language.decoder import SMALL
from support.programs.texts import CHAT, ENCODER, PAIRS, TINY, Files, chatting, encoding
from support.stories.served import served


@pytest.fixture(scope="module")
def mute(apps: Apps) -> str:
    """An app that is no model."""
    context = TensorContext()
    graph = context.compile_to_graph(context.add_graph_input("x", (4,)) * 2)
    return deploy_local(apps, "mute", read_parts(graph.program, None, None, None, apps)).name


@pytest.fixture(scope="module")
def chat_graph() -> GraphProgram:
    return chatting(limits=True)


def deploy_page(apps: Apps, graph: GraphProgram) -> str:
    files = Files.written(apps.root.parent / "page", graph, CHAT % 3)
    return deploy_local(apps, "page", files.parts(apps)).name


@pytest.fixture(scope="module")
def page(apps: Apps, chat_graph: GraphProgram) -> str:
    return deploy_page(apps, chat_graph)


@pytest.fixture
def ai(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        yield client


def test_chat_writes_what_the_program_writes(ai: openai.OpenAI, page: str, chat_graph: GraphProgram) -> None:
    for sampling in (
        Sampling(), Sampling(1.2, least=0.1, seed=5), Sampling(0.7, seed=(1 << 64) - 1),
        Sampling(1.3, seed=6, top_k=3), Sampling(1.1, seed=8, top_p=0.4),
    ):  # fmt: skip
        text = Text(PAIRS, TINY.context, language_model.here(chat_graph), (*SAMPLED, *LIMITS))
        expected = text.write("a task", 10, sampling).removeprefix("a task")
        asked: dict[str, Any] = {
            "model": page, "messages": [{"role": "user", "content": "a task"}], "max_tokens": 10,
            "temperature": sampling.temperature, "seed": sampling.seed, "top_p": sampling.top_p,
            "extra_body": {"min_p": sampling.least, "top_k": sampling.top_k},
        }  # fmt: skip
        whole = ai.chat.completions.create(**asked)
        [choice] = whole.choices
        assert expected.startswith(choice.message.content)
        assert (choice.finish_reason, choice.message.content) in (
            ("length", expected),
            ("stop", choice.message.content),
        )
        assert whole.usage.prompt_tokens == len(PAIRS.encode("a task"))
        assert whole.usage.completion_tokens == 10 or choice.finish_reason == "stop"
        assert whole.model_extra["eigentensor"]["seed"] == sampling.seed
        pieces = list(ai.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        content = "".join(chunk.choices[0].delta.content or "" for chunk in pieces if chunk.choices)
        assert (content, pieces[-1].usage) == (choice.message.content, whole.usage)
        assert pieces[-2].choices[0].finish_reason == choice.finish_reason
        stop = choice.message.content[3:5]
        stopped = ai.chat.completions.create(**asked, stop=[stop]).choices[0]
        assert (stopped.finish_reason, stop in stopped.message.content) == ("stop", False)


def test_a_plain_text_goes_on_without_turns(ai: openai.OpenAI, page: str) -> None:
    asked: dict[str, Any] = {"model": page, "max_tokens": 10, "temperature": 0.7, "seed": 5}
    chat = ai.chat.completions.create(**asked, messages=[{"role": "user", "content": "a task"}])
    whole = ai.completions.create(**asked, prompt="a task")
    assert (whole.object, whole.choices[0].text) == ("text_completion", chat.choices[0].message.content)
    assert whole.usage == chat.usage
    assert whole.choices[0].finish_reason == chat.choices[0].finish_reason
    for prompt in (["a task"], PAIRS.encode("a task"), [PAIRS.encode("a task")]):
        assert ai.completions.create(**asked, prompt=prompt).choices[0].text == whole.choices[0].text
    pieces = list(ai.completions.create(**asked, prompt="a task", stream=True, stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == whole.choices[0].text
    assert (pieces[-1].usage, pieces[-2].choices[0].finish_reason) == (whole.usage, whole.choices[0].finish_reason)
    assert pieces[-2].model_extra["eigentensor"] == {"seed": 5, "tasks": []}
    short = ai.completions.create(model=page, prompt="a", temperature=0)
    assert short.usage is not None and short.usage.completion_tokens <= 16
    assert ai.completions.create(**asked, prompt="").choices[0].text
    for parameter, more in (
        ("echo", {"echo": True}),
        ("logprobs", {"logprobs": 2}),
        ("prompt", {"prompt": ["a", "b"]}),
        ("prompt", {"prompt": [-1]}),
        ("prompt", {"prompt": "word " * 9}),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            ai.completions.create(**{**asked, "prompt": "a", **more})
        assert refused.value.param == parameter


def test_without_a_seed_answers_differ_and_say_which_seed_repeats_them(ai: openai.OpenAI, page: str) -> None:
    asked: dict[str, Any] = {"model": page, "messages": [{"role": "user", "content": "a"}], "max_tokens": 12}
    first, second = (ai.chat.completions.create(**asked) for _ in range(2))
    assert first.choices[0].message.content != second.choices[0].message.content
    again = ai.chat.completions.create(**asked, seed=first.model_extra["eigentensor"]["seed"])
    assert again.choices[0].message.content == first.choices[0].message.content
    raw = ai.chat.completions.with_raw_response.create(**asked)
    assert raw.headers["eigentensor-state"] == "local"
    same = [ai.chat.completions.create(**asked, extra_headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert same[0].choices[0].message.content == same[1].choices[0].message.content


def test_many_texts_at_once_do_not_mix(ai: openai.OpenAI, page: str) -> None:
    def written(seed: int) -> str:
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "a"}]
        answer = ai.chat.completions.create(model=page, messages=messages, max_tokens=12, seed=seed)
        return answer.choices[0].message.content or ""

    alone = [written(seed) for seed in range(8)]
    together: dict[int, str] = {}
    threads = [threading.Thread(target=lambda s=seed: together.update({s: written(s)})) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[seed] for seed in range(8)] == alone


def test_streams_that_are_left_early_keep_nobody_waiting(ai: openai.OpenAI, page: str) -> None:
    asked: dict[str, Any] = {"model": page, "messages": [{"role": "user", "content": "a"}], "temperature": 0}
    for _ in range(2 * CHATS):
        with ai.chat.completions.create(**asked, stream=True) as stream:
            next(stream)
    assert ai.chat.completions.create(**asked).choices[0].message.content


def test_refusals_are_openais_errors(ai: openai.OpenAI, page: str, mute: str) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "a"}]
    for kind, code, more in (
        (openai.NotFoundError, "model_not_found", {"model": "nothing", "messages": messages}),
        (openai.NotFoundError, "model_not_found", {"model": mute, "messages": messages}),
        (openai.NotFoundError, "model_not_found", {"model": f"{page}@x", "messages": messages}),
        (openai.BadRequestError, "unsupported_value", {"model": page, "messages": messages, "logit_bias": {"5": 1}}),
        (openai.BadRequestError, "unsupported_value", {"model": page, "messages": messages, "max_tokens": 99}),
        (openai.BadRequestError, "BadRequest", {"model": page, "messages": messages, "temperature": 5}),
    ):
        with pytest.raises(kind) as refused:
            ai.chat.completions.create(**more)
        assert refused.value.code == code
        assert refused.value.response.headers["content-type"] == "application/json"
        assert isinstance(refused.value.body, dict) and refused.value.body["message"]
    assert [refused.value.param, refused.value.type] == [None, "invalid_request_error"]
    with pytest.raises(openai.BadRequestError) as refused:
        ai.chat.completions.create(model=page, messages=messages, n=2)
    assert refused.value.param == "n"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_nobody_reads_is_not_written_any_further(
    chat_graph: GraphProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    steps: list[Step] = []
    write = LocalText.write

    async def counted(self: LocalText, step: Step) -> Values:
        steps.append(step)
        return await write(self, step)

    monkeypatch.setattr(LocalText, "write", counted)
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "blobs"))
    deploy_page(Apps(tmp_path), chat_graph)
    asked = {"model": "page", "messages": [{"role": "user", "content": "a"}], "temperature": 0, "stream": stream}
    body = json.dumps(asked).encode()
    received: list[dict[str, Any]] = [{"type": "http.disconnect"}, {"type": "http.request", "body": body}]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return received.pop() if len(received) > 1 else received[0]

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    path = "/v1/chat/completions"
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
             "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers, "server": None,
             "client": ("127.0.0.1", 1)}  # fmt: skip
    with assembled(Settings(local=True, data=tmp_path)) as service:
        asyncio.run(create_app(service)(scope, receive, send))
    assert [message.get("status") for message in sent] == [408, None]
    assert len(steps) == 1, "the one during which its reader went away"


def test_models_are_the_apps_that_speak_text(ai: openai.OpenAI, page: str, mute: str) -> None:
    assert page in [model.id for model in ai.models.list()]
    assert mute not in [model.id for model in ai.models.list()]
    assert ai.models.retrieve(page).owned_by == "eigentensor"
    with pytest.raises(openai.NotFoundError):
        ai.models.retrieve(mute)


@pytest.fixture(scope="module")
def words(apps: Apps) -> np.ndarray:
    """An encoder of two texts at a time; the vectors of its tokens."""
    graph = encoding()
    deploy_local(apps, "words", Files.written(apps.root.parent / "words", graph, ENCODER).parts(apps))
    return graph.weights["table"]


def test_embeddings_are_the_pooled_vectors_of_each_text(ai: openai.OpenAI, words: np.ndarray) -> None:
    texts = ["a task", "a program", "trace"]
    answer = ai.embeddings.create(model="words", input=texts)
    expected = [words[PAIRS.encode(text)].mean(0) for text in texts]
    for data, vector in zip(answer.data, expected, strict=True):
        assert np.allclose(data.embedding, vector / np.linalg.norm(vector), atol=1e-6)
    assert answer.usage.prompt_tokens == sum(len(PAIRS.encode(text)) for text in texts)
    assert answer.model_extra is not None and len(answer.model_extra["eigentensor"]["tasks"]) == 2
    plain = ai.embeddings.create(model="words", input=texts, encoding_format="float")
    assert [data.embedding for data in plain.data] == [data.embedding for data in answer.data]
    with pytest.raises(openai.BadRequestError) as refused:
        ai.embeddings.create(model="words", input=texts, dimensions=2)
    assert refused.value.param == "dimensions"


class Lossy(httpx.HTTPTransport):
    """Requests arrive; the first answer does not."""

    lost = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if self.lost:
            return answer
        self.lost += 1
        answer.close()
        raise httpx.ReadTimeout("lost", request=request)


def test_what_a_client_sends_again_by_itself_is_not_asked_for_twice(url: str, words: np.ndarray) -> None:
    def tasks() -> int:
        return len(httpx.get(f"{url}/v1/tasks", params={"limit": 200}).json()["tasks"])

    before, lossy = tasks(), Lossy()
    with openai.OpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        http_client=httpx.Client(transport=lossy),  # type: ignore[arg-type]  # taken, too, though only httpx2's is named
    ) as ai:
        ai.embeddings.create(model="words", input="a task")
        assert (lossy.lost, tasks()) == (1, before + 1)
        ai.embeddings.create(model="words", input="a task")
        assert tasks() == before + 2, "asked for once more by its user"


def test_a_token_is_an_api_key(tmp_path: Path) -> None:
    settings = Settings(local=True, data=tmp_path, port=0)
    token = Tokens(settings.tokens).new("me")
    with served(settings) as url:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=token) as ai:
            assert list(ai.models.list()) == []
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key="another") as ai,
            pytest.raises(openai.AuthenticationError) as no,
        ):
            ai.models.list()
        assert no.value.code == "invalid_api_key"
        assert no.value.response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.slow
def test_the_example_encoder_finds_texts_with_the_same_words(
    apps: Apps, ai: openai.OpenAI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    example = Path(language_model.__file__).with_name("embeddings.py")
    runpy.run_path(str(example), run_name="__main__")
    deploy_local(apps, "encoder", read_named(str(example), Here(apps.store), None, None, Path("embeddings.json"), apps))
    texts = ["a program is data", "a program is checked data", "gas of blocks and transactions"]
    first, near, far = (np.array(data.embedding) for data in ai.embeddings.create(model="encoder", input=texts).data)
    assert first @ near > first @ far


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_language_model_of_the_examples_is_deployed_and_streams_what_it_writes(
    ai: openai.OpenAI, apps: Apps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    language_model.train(steps=30)
    with pytest.raises(SystemExit) as ended:
        words = ["--model", "language_model.json", "--name", "front", "--local", "--data", str(apps.root.parent)]
        main(["deploy", language_model.__file__, *words])
    assert not ended.value.code
    graph, pairs = language_model.load()
    text = Text(pairs, SMALL.context, language_model.here(graph), (*SAMPLED, *LIMITS))
    expected = text.write("A program", 40, Sampling(0.7, seed=3, top_p=0.9)).removeprefix("A program")
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "A program"}]
    chunks = ai.chat.completions.create(
        model="front", messages=messages, max_tokens=40, temperature=0.7, top_p=0.9, seed=3, stream=True
    )
    pieces = [chunk.choices[0].delta.content for chunk in chunks]
    assert expected.startswith("".join(piece or "" for piece in pieces))
    assert len(pieces) >= 3
