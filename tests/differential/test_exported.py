"""The examples that `eigentensor init` writes: what PyTorch and scikit-learn compute up to rounding, and the expected
bits."""

from pathlib import Path

import numpy as np
import pytest

from eigentensor.runtime.compiled import execute
from eigentensor.store import load_safetensors
from eigentensor_client.examples import FOLDER, MODELS
from eigentensor_client.files import write_tensors
from support.vectors.examples import HEAT, TRAINING, heat, imported, losses, models


@pytest.mark.parametrize(("name", "model"), [(name, model.name) for name in MODELS for model in models(name)])
def test_an_exported_model_has_the_original_s_results_and_the_expected_bits(
    name: str, model: str, tmp_path: Path
) -> None:
    graph, tensors = imported(FOLDER / name / model)
    outputs = execute(graph.program, tensors).outputs
    for output, original in load_safetensors(FOLDER / name / "original.safetensors").items():
        assert outputs[output].dtype == original.dtype
        np.testing.assert_allclose(outputs[output], original, rtol=2e-5, atol=2e-6, err_msg=output)
    write_tensors(tmp_path / "output.safetensors", outputs, graph.program)
    expected = FOLDER / name / "expected.safetensors"
    assert (tmp_path / "output.safetensors").read_bytes() == expected.read_bytes(), "scripts/vectors writes it"


@pytest.mark.parametrize("name", ["pytorch_mlp", "pytorch_cnn"])
def test_pytorch_exports_in_two_ways(name: str) -> None:
    assert [path.name.partition(".")[2] for path in models(name)] == ["onnx", "torchscript.onnx"]


def test_the_simulation_prints_what_stands_beside_it() -> None:
    assert heat() == HEAT.read_text()


@pytest.mark.slow
def test_the_training_loses_what_stands_beside_it() -> None:
    """The first task of ten."""
    assert next(losses()) == TRAINING.read_text().splitlines(keepends=True)[0]


def test_no_example_is_large_or_names_the_machine_on_which_it_was_made() -> None:
    for name in MODELS:
        for path in (FOLDER / name).iterdir():
            assert path.stat().st_size < 100_000
            assert not any(word in path.read_bytes() for word in (b"/tmp", b"/home", b"/work", b"site-packages"))
