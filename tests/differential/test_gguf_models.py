"""GGUF files: tensors are bit for bit those of the library gguf, scores and tokens those of transformers with them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tinygrad import Tensor, dtypes

from eigentensor.capture import capture
from eigentensor.errors import BindingError
from eigentensor.runtime import CompiledGraph
from eigentensor_models import gguf, writing
from eigentensor_models.gguf_network import network_of
from eigentensor_models.gguf_text import text_of
from eigentensor_models.matrices import Blocks, Matrix, matrix_of
from eigentensor_models.quantised import Kept, Quantised
from eigentensor_models.writing import scoring
from support.vectors.gguf_models import FILES, FOLDER, digest, expected

EXPECTED: Mapping[str, Any] = json.loads((FOLDER / "expected.json").read_text())
QUICK = ("llama-q8_0", "qwen2-q4_0")
TYPES = {np.float32: dtypes.float32, np.float16: dtypes.float16, np.uint16: dtypes.bfloat16}


def tensors_of(name: str, kept: Kept) -> tuple[Matrix, dict[str, Tensor]]:
    """The matrix in a program, and its tensors by name, as `writing` makes them."""
    parts = {part: Tensor(np.array(weight.array)) for part, weight in kept.parts(name).items()}
    if not isinstance(kept, Quantised):
        parts[name] = parts[name].bitcast(TYPES[kept.array.dtype.type])
    return matrix_of(name, kept, parts), parts


def whole(matrix: Matrix, numbers: Tensor) -> Tensor:
    """All rows of a matrix, or all of several matrices."""
    if isinstance(matrix, Blocks) and matrix.fields["scale"].ndim > 2:
        return matrix.chosen(numbers).elements
    return matrix.rows(numbers)


def turned(array: npt.NDArray[Any], heads: int) -> npt.NDArray[Any]:
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FILES])
def test_tensors_are_those_of_the_library_bit_for_bit(name: str) -> None:
    file = gguf.read(FOLDER / f"{name}.gguf")
    network = network_of(file, name)
    kept = {key: one for key, one in network.weights.items() if len(one.shape) > 1}
    matrices = {key: tensors_of(key, one) for key, one in kept.items()}
    weights = {part: tensor for _, parts in matrices.values() for part, tensor in parts.items()}

    def rows(first: Tensor) -> dict[str, Tensor]:
        return {f"all.{k}": whole(m, Tensor.arange(kept[k].shape[0]) + first) for k, (m, _) in matrices.items()}

    graph = capture(rows, {"first": np.zeros(1, np.int32)}, weights, fingerprint=False)
    results = CompiledGraph(graph.program, graph.weights).run({"first": np.zeros(1, np.int32)}).outputs
    wanted = EXPECTED[name]["tensors"]
    heads = {"q_proj": network.architecture.heads, "k_proj": network.architecture.key_heads}
    for key in kept:
        array = results[f"all.{key}"]
        if file.metadata["general.architecture"] == "llama" and (count := heads.get(key.split(".")[-2])):
            array = turned(array, count)
        assert digest(array) in wanted.values(), key
    vectors = [one.array for one in network.weights.values() if not isinstance(one, Quantised) and one.array.ndim == 1]
    assert {digest(array) for array in vectors} <= set(wanted.values())


@pytest.mark.parametrize("name", [n if n == "llama-q8_0" else pytest.param(n, marks=pytest.mark.slow) for n in FILES])
def test_scores_and_greedy_tokens_are_those_of_transformers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, network = EXPECTED[name], network_of(gguf.read(FOLDER / f"{name}.gguf"), name)
    graph = scoring(network, 64)
    monkeypatch.setattr(writing, "capture", None)  # what was captured is known, and nothing else
    assert scoring(network, 64).uuid == graph.uuid
    with pytest.raises(TypeError):
        scoring(network, 32)
    execute = CompiledGraph(graph.program, {**graph.weights, **graph.states}, keep_states=True)
    rows = []
    for position, token in enumerate([0, *row["prompt"], *row["tokens"][:-1]]):
        inputs = {"tokens": np.array([token], np.int32)}
        rows.append(execute.run(inputs, {"position": position}).outputs["output"])
    scores, wanted = np.array(rows[len(row["prompt"]) :]), np.array(row["scores"])
    assert scores.argmax(1).tolist() == row["tokens"]
    assert np.abs(scores[-1] - wanted).max() <= 2e-4 * np.sqrt(np.square(wanted).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_scores_by_integers_are_nearly_those_by_floats(name: str) -> None:
    row, by = EXPECTED[name], []
    for integer in (False, True):
        graph = scoring(network_of(gguf.read(FOLDER / f"{name}.gguf"), name), 64, integer=integer)
        execute = CompiledGraph(graph.program, {**graph.weights, **graph.states}, keep_states=True)
        tokens = [{"tokens": np.array([token], np.int32)} for token in (0, *row["prompt"], *row["tokens"])]
        by.append(np.array([execute.run(one, {"position": n}).outputs["output"] for n, one in enumerate(tokens)]))
    assert 0 < np.square(by[0] - by[1]).mean() <= 0.04**2 * np.square(by[0]).mean()


def test_integers_are_for_blocks() -> None:
    with pytest.raises(BindingError, match="no quantised matrix"):
        scoring(network_of(gguf.read(FOLDER / "llama3-f32.gguf"), "it"), 64, integer=True)


def test_quantised_weights_stay_as_they_are() -> None:
    """Nothing is expanded: a program's weights have no more bytes than the file's tensors."""
    file = gguf.read(FOLDER / "qwen2-q4_0.gguf")
    weights = network_of(file, "it").weights
    parts = [part.array for name, kept in weights.items() for part in kept.parts(name).values()]
    assert sum(array.nbytes for array in parts) == sum(one.data.nbytes for one in file.tensors.values())


@pytest.mark.parametrize("name", [name for name, row in EXPECTED.items() if "texts" in row])
def test_tokens_of_texts_are_those_of_the_tokenizers_file(name: str) -> None:
    text, ends = text_of(gguf.read(FOLDER / f"{name}.gguf").metadata, name)
    for words, tokens in EXPECTED[name]["texts"]:
        assert text.encode(words) == tokens
    assert text.number(text.special["eos_token"]) == ends[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_what_others_make_of_a_file_is_what_is_committed(name: str) -> None:
    for library in ("gguf", "transformers"):
        pytest.importorskip(library)
    now = expected(name)
    assert (now["tensors"], now["tokens"]) == (EXPECTED[name]["tensors"], EXPECTED[name]["tokens"])
    np.testing.assert_allclose(now["scores"], EXPECTED[name]["scores"], rtol=1e-4, atol=1e-5)
    assert Path(FOLDER / f"{name}.gguf").stat().st_size < 100_000
