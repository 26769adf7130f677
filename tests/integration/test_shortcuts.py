"""The promised Python API, as it is written in the design."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

from eigentensor import (
    GraphProgram,
    TensorContext,
    execute_graph_on_gpu,
    fetch_exported_task_by_uuid,
    fetch_safetensors_by_uuid,
)
from eigentensor.errors import BindingError, BlobNotFound
from eigentensor.store.local import LocalStore
from eigentensor.store.tensors import save_safetensors


@pytest.fixture
def matmul() -> GraphProgram:
    context = TensorContext()
    a = context.add_graph_input("matrix_a", (30, 20))
    b = context.add_graph_input("matrix_b", (20, 10))
    return context.compile_to_graph(a @ b)


def random(seed: int, *shape: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_a_program_runs_again_and_again_with_different_inputs(matmul: GraphProgram) -> None:
    for seed in range(3):
        a, b = random(seed, 30, 20), random(seed + 9, 20, 10)
        result = execute_graph_on_gpu(matmul, {"matrix_a": a, "matrix_b": b})
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, a @ b, rtol=1e-4, atol=1e-5)


def test_tinygrad_tensors_are_inputs_too(matmul: GraphProgram) -> None:
    a, b = random(1, 30, 20), random(2, 20, 10)
    inputs = {"matrix_a": Tensor(a, device="CPU"), "matrix_b": Tensor(b, device="CPU")}
    expected = execute_graph_on_gpu(matmul, {"matrix_a": a, "matrix_b": b})
    np.testing.assert_array_equal(execute_graph_on_gpu(matmul, inputs), expected)


def test_a_program_survives_its_bytes(matmul: GraphProgram) -> None:
    again = GraphProgram.from_bytes(matmul.to_bytes())
    assert again.uuid == matmul.uuid
    assert again.to_bytes() == matmul.to_bytes()


def test_several_outputs_come_by_name_and_weights_can_be_replaced() -> None:
    context = TensorContext()
    x = context.add_graph_input("x", (4,))
    w = context.add_weight("w", Tensor([1.0, 2.0, 3.0, 4.0], dtype=dtypes.float32, device="CPU"))
    program = context.compile_to_graph({"sum": x + w, "product": x * w})
    ones = np.ones(4, np.float32)
    captured = execute_graph_on_gpu(program, {"x": ones})
    replaced = execute_graph_on_gpu(program, {"x": ones}, {"w": 5 * ones})
    assert isinstance(captured, dict) and isinstance(replaced, dict)
    assert captured["sum"].tolist() == [2, 3, 4, 5]
    assert replaced["product"].tolist() == [5, 5, 5, 5]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"matrix_a": random(0, 30, 20)}, "missing matrix_b"),
        ({"matrix_a": random(0, 30, 20), "matrix_b": random(0, 20, 10), "c": 1}, "unknown c"),
        ({"matrix_a": random(0, 20, 30), "matrix_b": random(0, 20, 10)}, "matrix_a"),
        ({"matrix_a": random(0, 30, 20).astype(np.float64), "matrix_b": random(0, 20, 10)}, "float64"),
    ],
)
def test_inputs_that_do_not_fit_are_named(matmul: GraphProgram, inputs: dict[str, object], words: str) -> None:
    with pytest.raises(BindingError, match=words):
        execute_graph_on_gpu(matmul, inputs)  # type: ignore[arg-type]


def test_what_the_store_has_is_fetched_by_its_root(
    matmul: GraphProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "weights.safetensors"
    save_safetensors(file, {"w": np.arange(3, dtype=np.float32)})
    store = LocalStore()
    assert fetch_safetensors_by_uuid(store.put(file))["w"].tolist() == [0, 1, 2]
    store.put(matmul.to_bytes())
    assert fetch_exported_task_by_uuid(matmul.uuid).program == matmul.program


@pytest.mark.parametrize("fetch", [fetch_safetensors_by_uuid, fetch_exported_task_by_uuid])
def test_what_the_store_lacks_is_not_found_without_a_network(
    fetch: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("EIGENTENSOR_GATEWAY_URL", "EIGENTENSOR_NETWORK", "EIGENTENSOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BlobNotFound, match="no blob") as refusal:
        fetch("ab" * 32)
    assert refusal.value.topic == "network"
