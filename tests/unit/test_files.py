"""What the user names on the command line is read strictly, and refused with a fix."""

from pathlib import Path

import numpy as np
import pytest

from eigentensor.errors import BindingError, BlobNotFound, TensorFileError
from eigentensor.store.tensors import save_safetensors
from eigentensor_client.files import read_inputs, read_tensors
from eigentensor_client.inputs import read_variables

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", X)
    save_safetensors(tmp_path / "both.safetensors", {"x": X, "y": X + 1})
    (tmp_path / "pickle.npy").write_bytes(b"\x80\x04K*.")
    (tmp_path / "text.safetensors").write_text("hello")
    return tmp_path


def test_an_input_comes_from_an_npy_file(folder: Path) -> None:
    assert np.array_equal(read_inputs([f"a=@{folder}/x.npy"])["a"], X)


def test_an_input_comes_from_a_safetensors_file_by_its_name(folder: Path) -> None:
    assert np.array_equal(read_inputs([f"y=@{folder}/both.safetensors"])["y"], X + 1)


def test_a_whole_safetensors_file_gives_all_its_tensors(folder: Path) -> None:
    assert sorted(read_inputs([f"@{folder}/both.safetensors"])) == ["x", "y"]


@pytest.mark.parametrize(
    ("word", "error", "says"),
    [
        ("x", BindingError, "cannot read input 'x'"),
        ("x=3", BindingError, "cannot read input"),
        ("x=@", BindingError, "cannot read input"),
        ("@{}/x.npy", BindingError, "has no name of its own"),
        ("x=@{}/missing.npy", BlobNotFound, "No such file"),
        ("x=@{}", BlobNotFound, "Is a directory"),
        ("x=@{}/pickle.npy", BindingError, "is not a .npy file"),
        ("z=@{}/both.safetensors", BindingError, "it holds x, y"),
        ("z=@{}/text.safetensors", TensorFileError, "not a safetensors file"),
    ],
)
def test_a_wrong_input_is_refused(folder: Path, word: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read_inputs([word.format(folder)])


def test_variables_are_whole_numbers() -> None:
    assert read_variables(["n=-3", "m=4"]) == {"n": -3, "m": 4}
    with pytest.raises(BindingError, match=r"n=1.5"):
        read_variables(["n=1.5"])


def test_no_file_has_no_tensors() -> None:
    assert read_tensors(None) == {}
