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
from eigentensor_models.folder import read_network
from eigentensor_models.writing import scoring, written
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
        inputs = {"token": np.array([token], np.int32)}
        rows.append(execute.run(inputs, {"position": position}).outputs["output"])
    scores = np.array(rows[1:])
    wanted = np.concatenate([arrays["prefill"], arrays["decoded"][1:]])
    assert np.abs(scores - wanted).max() <= TOLERANCE * np.sqrt(np.square(wanted, dtype=np.float64).mean())
    assert scores[len(prompt) - 1 :].argmax(1).tolist() == tokens.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mistral", "qwen3"])
def test_a_program_that_writes_writes_the_tokens_of_transformers(name: str) -> None:
    arrays = load_file(FOLDER / name / "expected.safetensors")
    context = len(arrays["prompt"]) + COUNT + 1
    graph = written(read_network(FOLDER / name), context)
    step = writing.step(context, 0, arrays["prompt"].tolist(), COUNT, Sampling(), (*SAMPLED, *LIMITS))
    results = compiled(graph).run(dict(step.inputs), dict(step.variables), step.repeat)
    assert step.new(results.outputs["output"]) == arrays["tokens"].tolist()
    assert all(np.shares_memory(array, graph.weights[name]) for name, array in graph.weights.items())


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
