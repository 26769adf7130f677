"""Changed files of models are read, or refused with an error of this project: never a crash, nor without an end."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eigentensor.errors import ConfigError, StoreError, TensorFileError
from eigentensor_models import gguf
from eigentensor_models.gguf_network import network_of
from eigentensor_models.gguf_text import text_of
from support.hostile.model_files import read_folder, tried
from support.vectors.gguf_models import FOLDER
from support.vectors.model_texts import FOLDER as TEXTS


@pytest.mark.parametrize(
    "seeds", [range(1000), pytest.param(range(1000, 101_000), marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)
def test_changed_files_are_read_or_refused(seeds: range, tmp_path: Path) -> None:
    refused = 0
    for seed in seeds:
        try:
            tried(tmp_path, seed)
        except (ConfigError, StoreError) as error:
            assert error.what and error.fix, seed
            refused += 1
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert len(seeds) / 4 < refused < len(seeds)


def head(*parts: int | bytes, size: int = 8) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part.to_bytes(size, "little") for part in parts)


VERSION = (3).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"GGML", "does not begin"),
        (b"GGUF" + (1).to_bytes(4, "little") + head(0, 0), "version 1 is not known"),
        (b"GGUF" + VERSION + head(1 << 60, 0), f"it has {1 << 60} tensors"),
        (b"GGUF" + VERSION + head(0, 1, 1 << 63), f"has {1 << 63} bytes"),
        (b"GGUF" + VERSION + head(0, 1, 1, b"a"), "cut off"),
        (b"GGUF" + VERSION + head(0, 1, 1, b"a", b"\x09\0\0\0", b"\x08\0\0\0", 1 << 40), "too long"),
        (b"GGUF" + VERSION + head(0, 1, 1, b"a", b"\x09\0\0\0", b"\x09\0\0\0", 1), "one of lists"),
        (b"GGUF" + VERSION + head(0, 1, 1, b"a", b"\x63\0\0\0"), "of the kind 99"),
        (b"GGUF" + VERSION + head(0, 2, *(1, b"a", b"\x07\0\0\0\1") * 2), "said twice"),
        (b"GGUF" + VERSION + head(1, 0, 1, b"w", b"\1\0\0\0", 256, b"\x0a\0\0\0", 0), "quantised as Q2_K, which"),
        (b"GGUF" + VERSION + head(1, 0, 1, b"w", b"\1\0\0\0", 33, b"\x08\0\0\0", 0), "cannot have the shape"),
        (b"GGUF" + VERSION + head(1, 0, 1, b"w", b"\1\0\0\0", 1 << 39, b"\0\0\0\0", 0), "has no place in the file"),
        (b"GGUF" + VERSION + head(1, 0, 1, b"w", b"\x09\0\0\0"), "has 9 axes"),
    ],
)
def test_what_a_gguf_file_lies_about_is_named(content: bytes, match: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(TensorFileError, match=match):
        gguf.read(path)


def test_a_tokenizer_at_which_its_library_panics_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TEXTS / "llama", tmp_path / "llama"))
    values = json.loads((folder / "tokenizer.json").read_text())
    assert values["post_processor"]["special_tokens"].pop("<s>")
    (folder / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=r"tokenizer.json (cannot be read|makes no tokens)"):
        read_folder(folder)


TOKENS = {
    "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": ["a", "b", "ab", "</s>"],
    "tokenizer.ggml.token_type": [1, 1, 1, 3], "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.eos_token_id": 3,
    "tokenizer.ggml.scores": [0.0, -1.0, -2.0, -3.0],
}  # fmt: skip
TYPES: list[Any] = [
    None,
    5,
    -1,
    1.5,
    "x",
    True,
    [],
    [1],
    ["a"],
    [[1]],
    ["a", "b", "ab", 5],
    [True] * 4,
    [float("nan")] * 4,
]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_metadata_of_a_tokenizer_may_be_of_any_type(kind: str) -> None:
    whole = {**TOKENS, "tokenizer.ggml.model": kind}
    text, ends = text_of(whole, "it")
    assert (text.size, ends) == (4, [3])
    for name in whole:
        for value in TYPES:
            with suppress(ConfigError):
                text_of({**whole, name: value}, "it")


def test_metadata_of_a_network_may_be_of_any_type() -> None:
    file = gguf.read(FOLDER / "qwen2-q4_0.gguf")
    for name in file.metadata:
        for value in TYPES:
            with suppress(ConfigError, TensorFileError):
                network_of(gguf.File({**file.metadata, name: value}, file.tensors), "it")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_members_of_a_folders_files_may_be_of_any_type(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TEXTS / "qwen2", tmp_path / "qwen2"))
    (folder / "chat_template.jinja").unlink()
    values = {"chat_template": "x", "eos_token": "x", **json.loads((folder / name).read_text())}
    objects: list[Any] = [{}, {"a": 1}, [{"name": []}], [{"name": "default", "template": []}]]
    for member in values:
        for value in [*TYPES, *objects]:
            (folder / name).write_text(json.dumps({**values, member: value}))
            with suppress(ConfigError, TensorFileError):
                read_folder(folder)


def test_a_cut_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole, path = (FOLDER / "qwen2-q4_0.gguf").read_bytes(), tmp_path / "model.gguf"
    for end in range(4, len(whole) - 32, 97):
        path.write_bytes(whole[:end])
        with pytest.raises(TensorFileError):
            gguf.read(path)
