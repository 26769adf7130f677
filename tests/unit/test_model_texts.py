"""Texts of models: tokens, chats and answers are those of transformers; what is malformed is refused in bounds."""

import json
from pathlib import Path
from typing import Any

import pytest

from eigentensor.errors import BindingError, ConfigError
from eigentensor_client.byte_pairs import trained
from eigentensor_client.tokenizer import Tokenizer
from eigentensor_models.rendering import Renderer, renderer
from eigentensor_models.text import Text, ends_of, read_text, tokenizer_of
from support.vectors.model_texts import FOLDER

MODELS = ("llama", "qwen2")


def expected(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((FOLDER / name / "expected.json").read_text())
    return read


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def taken(tokenizer: Tokenizer, tokens: list[int]) -> str:
    decoding = tokenizer.decoding()
    pieces = [decoding.take(token, is_last=False) for token in tokens[:-1]]
    assert "".join(pieces) == tokenizer.decode(tokens)[: len("".join(pieces))]
    return "".join([*pieces, decoding.take(tokens[-1], is_last=True)])


def test_tokens_of_texts_are_those_of_transformers(name: str) -> None:
    text = read_text(FOLDER / name)
    for words, tokens in expected(name)["texts"]:
        assert text.encode(words) == tokens


def test_chats_are_rendered_and_tokenized_as_transformers_does(name: str) -> None:
    text, rows = read_text(FOLDER / name), expected(name)
    assert text.template is not None
    for chat, rendered in rows["chats"]:
        if rendered is None:
            with pytest.raises(BindingError, match="does not take these messages"):
                text.chat(chat)
        else:
            assert renderer().render(text.template, chat, text.special) == rendered
    assert text.chat(rows["chats"][0][0]) == rows["prompt"]


def test_an_answer_as_it_comes_is_the_text_of_all_its_tokens(name: str) -> None:
    text, rows = read_text(FOLDER / name), expected(name)
    assert taken(text, rows["answer"]) == rows["text"]
    for words, tokens in rows["texts"]:
        if words:
            assert taken(text, tokens) == text.decode(tokens)


def test_numbers_that_are_no_tokens_have_no_text(name: str) -> None:
    text, answer = read_text(FOLDER / name), expected(name)["answer"]
    beyond = [-1, text.size, 1 << 31, 1 << 32, -(1 << 31)]
    assert text.decode([number for token in answer for number in (*beyond, token)]) == text.decode(answer)


def test_templates_render_what_transformers_renders() -> None:
    rows = json.loads((FOLDER / "templates.json").read_text())
    for name, template, chats in rows["templates"]:
        for chat, rendered in chats:
            if rendered is None:
                with pytest.raises(BindingError):
                    renderer().render(template, chat, rows["special"])
            else:
                assert renderer().render(template, chat, rows["special"]) == rendered, name


def test_a_template_that_loops_is_ended() -> None:
    one = Renderer(seconds=1.0)
    try:
        with pytest.raises(ConfigError, match="more than 1 s of a processor"):
            one.render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", [], {})
        assert one.render("{{ messages[0].content }}", [{"role": "user", "content": "again"}], {}) == "again"
    finally:
        one.close()


@pytest.mark.parametrize(
    "template",
    [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'a' * 10000000000 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'x'.center(3000000000) }}",
        "{{ 'ab' * 3000000 }}",
        "{{ ''.__class__.__mro__ }}",
        "{% set n = namespace() %}{% set n.__init__ = 1 %}",
        "{{ messages.append(1) }}",
        "{% include 'x' %}",
        "{{ 7 // 0 }}",
        "{% if %}",
        "{{ raise_exception('no') }}",
    ],
)
def test_a_template_that_asks_for_too_much_is_refused(template: str) -> None:
    with pytest.raises((BindingError, ConfigError)):
        renderer().render(template, [], {})


def test_a_tokenizer_is_kept_in_one_file(name: str) -> None:
    text = read_text(FOLDER / name)
    again = tokenizer_of(text.to_bytes())
    assert again == text
    assert again.size == text.size > 380
    pairs = trained("a program", 260)
    assert tokenizer_of(pairs.to_bytes()) == pairs


def test_ends_are_those_of_the_files(name: str, tmp_path: Path) -> None:
    text = read_text(FOLDER / name)
    end = text.number(text.special["eos_token"])
    assert ends_of(FOLDER / name, text) == [end]
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 7, 99999]}')
    assert ends_of(tmp_path, text) == [5, 7, end]
    with pytest.raises(ConfigError, match="says nowhere which token ends"):
        ends_of(tmp_path / "none", Text(text.tokenizer))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": "x"}')
    with pytest.raises(ConfigError, match="eos_token_id is no token"):
        ends_of(tmp_path, text)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff", b'{"model": 1}', b"[" * 100_000, b'{"version":"1.0","model":{"type":"BPE"}}']
)
def test_a_tokenizer_that_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ConfigError):
        read_text(tmp_path)


def test_special_tokens_are_texts_or_objects_with_one(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(read_text(FOLDER / "llama").tokenizer)
    config = {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": None, "chat_template": [
        {"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ bos_token }}!"}]}  # fmt: skip
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    text = read_text(tmp_path)
    assert text.special == {"bos_token": "<s>"}
    assert text.template == "{{ bos_token }}!"
    (tmp_path / "chat_template.jinja").write_text("{{ messages | length }}")  # newer: a file of its own
    assert read_text(tmp_path).template == "{{ messages | length }}"
