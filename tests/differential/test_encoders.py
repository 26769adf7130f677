"""Encoders of each family compute what transformers does, from a folder to a vector."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from eigentensor.runtime import CompiledGraph
from eigentensor_models.encoders import encoder_of
from eigentensor_models.encoding import encoded, weights_of
from eigentensor_models.options import read_object
from support.vectors.encoders import FOLDER, MODELS, expected

TOLERANCE = 2e-4  # of the results' root mean square
PARTS = [(name, part) for name in MODELS for part in (("text", "image") if name == "clip" else (None,))]


@pytest.mark.slow  # tests/integration/test_encoders_served.py looks at one
@pytest.mark.parametrize(("name", "part"), PARTS)
def test_results_are_those_of_transformers(name: str, part: str | None) -> None:
    arrays = load_file(FOLDER / name / "expected.safetensors")
    encoder, _ = encoder_of(read_object(FOLDER / name / "config.json"), FOLDER / name, part)
    wanted = arrays[part or "output"]
    length = arrays["tokens"].shape[1] if "tokens" in arrays else 0
    graph = encoded(encoder, weights_of(encoder, FOLDER / name), len(wanted), length)
    if "mask" in arrays:
        arrays["mask"] = arrays["mask"].astype(np.float32)
    inputs = {word: arrays[word] for word in encoder.inputs(1, 2)}
    found = CompiledGraph(graph.program, graph.weights).run(inputs).outputs["output"]
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= TOLERANCE * np.sqrt(np.square(wanted, dtype=np.float64).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_transformers_computes_is_what_the_files_say(name: str) -> None:
    pytest.importorskip("transformers")
    arrays, now = load_file(FOLDER / name / "expected.safetensors"), expected(name)
    assert arrays.keys() == now.keys()
    for word, array in arrays.items():
        np.testing.assert_allclose(now[word], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_models_are_those_that_the_script_describes(name: str) -> None:
    kind, described, dtype, _ = MODELS[name]
    config = json.loads((FOLDER / name / "config.json").read_text())
    assert (config["architectures"], config["dtype"]) == ([kind], dtype)
    for option in described.keys() - {"num_labels"}:
        said = config[option]
        assert said == described[option] or described[option].items() <= said.items()
