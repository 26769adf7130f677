"""What OpenAI's routes decide: prompts, parameters, ends of answers, vectors, errors."""

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from eigentensor.errors import BindingError
from eigentensor_client.byte_pairs import END, trained
from eigentensor_client.writing import LIMITS, SAMPLED
from eigentensor_serve.apps.models import Chat, Embeddings
from eigentensor_serve.openai import chat as openai_chat
from eigentensor_serve.openai import embeddings as openai_embeddings
from eigentensor_serve.openai.chat import Answer, ChatRequest
from eigentensor_serve.openai.embeddings import EmbeddingsRequest
from eigentensor_serve.openai.errors import Unsupported, error_object, of_problem

PAIRS = trained("a program, a task, a trace — änd Ümläute 漢字\n" * 3, 290)
CHAT = Chat("x", {"user": "> {content}\n", "system": "{content}\n"}, reply="<")


def request(**more: Any) -> ChatRequest:
    body = {"model": "page", "messages": [{"role": "user", "content": "a task"}], **more}
    return ChatRequest.model_validate(body)


def read(*, names: Any = (*SAMPLED, *LIMITS), **more: Any) -> openai_chat.Wanted:
    return openai_chat.read(request(**more), CHAT, PAIRS, context=100, chance=77, names=names)


def test_messages_become_a_text_by_the_turns_of_the_model() -> None:
    parts = [{"type": "text", "text": text} for text in ("{content}", "?")]
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": parts}]
    assert PAIRS.decode(read(messages=messages).prompt) == "be brief\n> {content}?\n<"


def test_what_is_not_said_is_as_openai_has_it() -> None:
    wanted = read()
    assert wanted.sampling.temperature == 1.0
    assert wanted.sampling.least == 0.0
    assert wanted.most == 100 - len(wanted.prompt)
    assert wanted.sampling.seed == 77
    assert read(seed=-1).sampling.seed == (1 << 64) - 1
    assert read(max_tokens=3).most == read(max_completion_tokens=3).most == 3
    assert read(stop="x").stops == ("x",)


@pytest.mark.parametrize(
    "parameter",
    [
        "n",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "tools",
        "response_format",
        "reasoning_effort",
    ],
)
def test_what_is_not_honoured_is_refused_by_its_name(parameter: str) -> None:
    with pytest.raises(Unsupported, match=parameter) as refused:
        read(**{parameter: {"type": "json_object"} if parameter == "response_format" else 0.5})
    assert refused.value.parameter == parameter


@pytest.mark.parametrize(("parameter", "value"), [("top_p", 0.5), ("top_k", 3)])
def test_limits_are_honoured_where_the_program_has_them(parameter: str, value: float) -> None:
    assert getattr(read(**{parameter: value}).sampling, parameter) == value
    with pytest.raises(Unsupported, match="is no input of the model's program") as refused:
        read(names=SAMPLED, **{parameter: value})
    assert refused.value.parameter == parameter
    assert read(names=SAMPLED, top_p=1, top_k=0) == read()


def test_values_that_change_nothing_are_accepted() -> None:
    harmless = {"n": 1, "top_p": 1, "presence_penalty": 0, "logprobs": False, "user": "me", "tools": None}
    assert read(**harmless, seed=3) == read(seed=3)
    with pytest.raises(Unsupported):
        read(n=True)


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": "x", "name": "me"}]},
        {"messages": [{"role": "user", "content": "word " * 200}]},
        {"max_tokens": 100},
        {"stop": ["a", ""]},
        {"stop": list("abcde")},
    ],
)
def test_what_cannot_be_done_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        read(**more)


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(BindingError, match="surrogate"):
        read(messages=[{"role": "user", "content": "\ud800"}])


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 3},
        {"top_p": 1.5},
        {"top_k": -1},
        {"temperature": float("nan")},
        {"messages": []},
        {"seed": 1 << 64},
    ],
)
def test_wrong_values_do_not_get_that_far(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request(**more)


@settings(max_examples=30)
@given(st.text(st.characters(codec="utf-8"), max_size=30), st.lists(st.integers(1, 7), max_size=10), st.data())
def test_an_answer_in_pieces_is_the_whole_answer(text: str, sizes: list[int], data: st.DataObject) -> None:
    tokens = [*PAIRS.encode(text), END, *PAIRS.encode("never seen")]
    stops = data.draw(st.lists(st.text(st.sampled_from(text or "x"), min_size=1, max_size=3), max_size=3))
    whole = Answer(PAIRS, (END,), 1000, stops)
    content, finish, count = whole.take(tokens), whole.finish, whole.tokens
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    assert (content, finish) == (text[: min(ends, default=(0, len(text)))[1]], "stop")
    pieces, place, prefix = Answer(PAIRS, (END,), 1000, stops), 0, ""
    for size in [*sizes, len(tokens)]:
        prefix += pieces.take(tokens[place : place + size])
        assert content.startswith(prefix)
        place += size
    assert (prefix, pieces.finish, pieces.tokens) == (content, finish, count)


def test_an_answer_ends_after_as_many_tokens_as_were_asked_for() -> None:
    tokens = PAIRS.encode("a program, a task")
    answer = Answer(PAIRS, (END,), 2)
    assert answer.take(tokens) == PAIRS.decode(tokens[:2])
    assert (answer.finish, answer.tokens) == ("length", 2)
    assert answer.take(tokens) == ""
    for odd in (1 + 0xE2, PAIRS.size, -1):  # half a character; tokens that there are not
        assert Answer(PAIRS, (END,), 1).take([odd]) == "\ufffd"


def embeddings(**more: Any) -> list[list[int]]:
    return openai_embeddings.read(EmbeddingsRequest.model_validate({"model": "e", **more}), PAIRS, length=8)


def test_texts_come_as_text_or_as_tokens() -> None:
    assert embeddings(input="a task") == embeddings(input=["a task"]) == [PAIRS.encode("a task")]
    assert embeddings(input=[5, 6]) == embeddings(input=[[5, 6]]) == [[5, 6]]
    for wrong in ([], "", ["a task", ""], "word " * 20, [PAIRS.size], [[-1]], "\ud800"):
        with pytest.raises(Unsupported, match="input"):
            embeddings(input=wrong)
    with pytest.raises(Unsupported, match="dimensions"):
        embeddings(input="a task", dimensions=3)


def test_pooling_is_the_mean_over_a_texts_own_tokens_or_its_first() -> None:
    output = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)
    rows = [[5, 6]]
    assert openai_embeddings.pooled(output, rows, Embeddings("x", "mean", normalise=False)).tolist() == [[1.0, 2.0]]
    assert openai_embeddings.pooled(output, rows, Embeddings("x", "first", normalise=False)).tolist() == [[0.0, 1.0]]
    assert openai_embeddings.pooled(output[:, 1], rows, Embeddings("x", "none", normalise=False)).tolist() == [
        [2.0, 3.0]
    ]
    length = np.linalg.norm(openai_embeddings.pooled(output, rows, Embeddings("x")))
    assert np.isclose(length, 1)


def test_base64_holds_the_bits_of_the_numbers() -> None:
    vectors = np.random.default_rng(1).standard_normal((2, 5), dtype=np.float32)
    plain, packed = (openai_embeddings.answer("e", vectors, 7, encoding) for encoding in ("float", "base64"))
    assert plain["usage"] == packed["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    for number, vector in enumerate(vectors):
        assert np.array(plain["data"][number]["embedding"], np.float32).tobytes() == vector.tobytes()
        assert base64.b64decode(packed["data"][number]["embedding"]) == vector.tobytes()


def test_errors_have_the_types_of_openai() -> None:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "invalid_request_error",
             402: "insufficient_quota", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}  # fmt: skip
    assert {status: error_object(status, "x", None)["error"]["type"] for status in kinds} == kinds
    problem = {"status": 404, "detail": "there is no app 'x'", "fix": "Look.", "code": "AppNotFound"}
    error = {
        "message": "there is no app 'x' Look.",
        "type": "invalid_request_error",
        "param": None,
        "code": "model_not_found",
    }
    assert of_problem(problem)["error"] == error
