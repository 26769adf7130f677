"""What the user names on the command line is read strictly, and refused with a fix."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor.errors import BindingError, BlobNotFound, EigenTensorError, TensorFileError
from eigentensor.program.fitting import Header
from eigentensor.store.tensors import save_safetensors
from eigentensor_client.files import read_inputs, read_tensors
from eigentensor_client.inputs import headers_of, read_variables

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
    with suppress(EigenTensorError):  # or it is left to what reads it
        assert headers_of([word.format(folder)]) is None


def test_variables_are_whole_numbers() -> None:
    assert read_variables(["n=-3", "m=4"]) == {"n": -3, "m": 4}
    with pytest.raises(BindingError, match=r"n=1.5"):
        read_variables(["n=1.5"])


def test_no_file_has_no_tensors() -> None:
    assert read_tensors(None) == {}


ARRAYS = [
    *(np.zeros(shape, dtype) for shape in ((), (1,), (7,), (2, 3), (1, 1, 4)) for dtype in ("bool", "i1", "u2", "f4")),
    *(np.zeros((2, 3), dtype) for dtype in ("i2", "i4", "i8", "u1", "u4", "u8", "f2", "f8", ">f4", "c8", "U2", "V3")),
    np.asfortranarray(np.zeros((2, 3), np.float32)), np.zeros((0, 3), np.float32),
    np.zeros(2, [("a", np.int32), ("b", np.float32)]),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_a_header_says_what_numpy_reads_or_leaves_it_to_numpy(tmp_path: Path, array: "np.ndarray[Any, Any]") -> None:
    np.save(tmp_path / "x.npy", array)
    headers = headers_of([f"x=@{tmp_path}/x.npy"])
    if headers is None:
        assert array.size == 0 or array.dtype.newbyteorder("=") != array.dtype or array.dtype.kind not in "biuf"
    else:
        read = read_inputs([f"x=@{tmp_path}/x.npy"])["x"]
        assert headers == {"x": Header(str(read.dtype), read.shape)}


@pytest.mark.parametrize("size", [0, 9, 40, 127, 128, 151])
def test_a_file_that_lacks_elements_is_left_to_numpy_which_refuses_it(folder: Path, size: int) -> None:
    whole = (folder / "x.npy").read_bytes()
    assert len(whole) == 152
    (folder / "x.npy").write_bytes(whole[:size])
    assert headers_of([f"x=@{folder}/x.npy"]) is None
    with pytest.raises(BindingError, match=r"is not a \.npy file"):
        read_inputs([f"x=@{folder}/x.npy"])


def test_headers_are_of_inputs_and_files_together(folder: Path) -> None:
    headers = headers_of([f"a=@{folder}/x.npy", f"y=@{folder}/both.safetensors"], folder / "both.safetensors", None)
    assert headers == dict.fromkeys("ayx", Header("float32", (2, 3)))
