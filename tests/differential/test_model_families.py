"""Each family of models computes what transformers does: scores of a prompt and of 64 tokens after it, and these."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from eigentensor.capture import GraphProgram
from eigentensor.runtime import CompiledGraph
from eigentensor_client import writing
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models import writing as models
from eigentensor_models.folder import read_network
from eigentensor_models.writing import scoring
from support.vectors.models import COUNT, FOLDER, MODELS, SIZES, expected

QUICK = ("gemma3", "llama3")  # which have most of what there is between them
TOLERANCE = 2e-4  # of the scores' root mean square


def families() -> list[object]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sorted(MODELS)]


def compiled(graph: GraphProgram) -> CompiledGraph:
    return CompiledGraph(graph.program, {**graph.weights, **graph.states}, keep_states=True)


@pytest.mark.parametrize("name", families())
def test_scores_and_greedy_tokens_are_those_of_transformers(name: str) -> None:
    arrays = load_file(FOLDER / name / "expected.safetensors")
    prompt, tokens = arrays["prompt"], arrays["tokens"]
    execute = compiled(scoring(read_network(FOLDER / name), len(prompt) + COUNT + 1))
    rows = []
    for position, token in enumerate([0, *prompt, *tokens[:-1]]):
        inputs = {"tokens": np.array([token], np.int32)}
        rows.append(execute.run(inputs, {"position": position}).outputs["output"])
    scores = np.array(rows[1:])
    wanted = np.concatenate([arrays["prefill"], arrays["decoded"][1:]])
    assert np.abs(scores - wanted).max() <= TOLERANCE * np.sqrt(np.square(wanted, dtype=np.float64).mean())
    assert scores[len(prompt) - 1 :].argmax(1).tolist() == tokens.tolist()


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in sorted(MODELS)])
def test_chunks_have_the_scores_of_transformers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "CHUNK", 8)
    arrays = load_file(FOLDER / name / "expected.safetensors")
    tokens = np.array([0, *arrays["prompt"], *arrays["tokens"][:-1]], np.int32)
    execute = compiled(scoring(read_network(FOLDER / name), len(tokens) + 1, 8))
    padded = np.pad(tokens, (0, -len(tokens) % 8)).reshape(-1, 8)
    rows = [execute.run({"tokens": row}, {"position": 8 * n}).outputs["output"] for n, row in enumerate(padded)]
    scores, wanted = np.concatenate(rows)[1 : len(tokens)], np.concatenate([arrays["prefill"], arrays["decoded"][1:]])
    assert np.abs(scores - wanted).max() <= TOLERANCE * np.sqrt(np.square(wanted, dtype=np.float64).mean())


@pytest.mark.parametrize(
    "name", ["gemma3", pytest.param("mistral", marks=pytest.mark.slow), pytest.param("qwen3", marks=pytest.mark.slow)]
)
def test_what_was_read_in_chunks_goes_on_with_the_tokens_of_transformers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "CHUNK", 8)
    arrays = load_file(FOLDER / name / "expected.safetensors")
    text = [*arrays["prompt"].tolist(), *arrays["tokens"].tolist()]
    context = len(text) + 1
    both = models.programs(read_network(FOLDER / name), context)
    reader, writer = CompiledGraph(both.reader.program, both.reader.weights), compiled(both.writer)
    names = (*SAMPLED, *LIMITS)
    for length in (len(arrays["prompt"]), 23, 26, 40):  # with a rest, without, with one that is read one by one
        read = writing.reading(context, text[:length], 0, 8, Sampling(), names)
        assert read is not None
        states, written = dict(both.reader.states), list[int]()
        for done in range(read.repeat):
            part = read.part(done, 1)
            results = reader.run({**part.inputs, **states}, part.variables, part.repeat)
            states, written = dict(results.states), written + part.new(results.outputs["output"])
        whole = reader.run({**read.inputs, **both.reader.states}, read.variables, read.repeat)
        assert all(whole.states[name].tobytes() == array.tobytes() for name, array in states.items())
        rest = text[read.last : length]
        step = writing.step(context, read.last, rest, len(text) - read.last - len(rest), Sampling(), names)
        written += step.new(writer.run({**step.inputs, **states}, step.variables, step.repeat).outputs["output"])
        assert written == text[length:]
    assert all(np.shares_memory(array, both.reader.weights[name]) for name, array in both.writer.weights.items())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_models_are_those_that_the_script_describes(name: str) -> None:
    family, more, dtype = MODELS[name]
    config = json.loads((FOLDER / name / "config.json").read_text())
    described = SIZES | more | {"model_type": family, "dtype": dtype}
    assert {
        key: config[key] for key in described.keys() - {"rope_parameters", "sliding_window"}
    }.items() <= described.items()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_transformers_computes_is_what_the_files_say(name: str) -> None:
    pytest.importorskip("transformers")
    arrays, now = load_file(FOLDER / name / "expected.safetensors"), expected(Path(FOLDER / name))
    assert arrays["tokens"].tolist() == now["tokens"].tolist()
    for word in ("prefill", "decoded"):
        np.testing.assert_allclose(now[word], arrays[word], rtol=1e-4, atol=1e-5)
