"""Blobs on disk: names, pieces, safetensors, atomic writes."""

import errno
import json
import os
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.errors import BlobCorrupt, BlobNotFound, StoreFull, TensorFileError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.store import (
    Kind,
    LocalStore,
    Pieces,
    bindings_root,
    describe,
    load_safetensors,
    parse_name,
    save_safetensors,
)
from eigentensor.store.headers import read_header
from eigentensor.store.local import writing

PIECE = merkle.PIECE


def tensors() -> dict[str, np.ndarray]:
    return {
        "flag": np.array([True, False, True]),
        "half": np.array([[1.5, np.nan]], np.float16),
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.float32),
        "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "pattern": np.array([0x7FC1, 0x8000], np.uint16),
    }


@pytest.mark.parametrize("size", [0, 1, 1024, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 1025])
def test_pieces_fold_to_the_blob_root_and_each_is_verified_alone(tmp_path: Path, size: int) -> None:
    data = bytes(i % 251 for i in range(1000)) * (size // 1000 + 1)
    data = data[:size]
    (tmp_path / "file").write_bytes(data)
    pieces = Pieces.of(tmp_path / "file")
    assert pieces == Pieces.of(data)
    assert pieces.blob == merkle.blob_root(data)
    assert Pieces.from_json(json.loads(json.dumps(pieces.to_json())), size) == pieces
    for i in range(len(pieces.roots)):
        piece = data[i * PIECE : (i + 1) * PIECE]
        pieces.check(i, piece)
        with pytest.raises(BlobCorrupt):
            pieces.check(i, piece[:-1] + bytes([piece[-1] ^ 1]))
        with pytest.raises(BlobCorrupt):
            pieces.check(i, piece[:-1])


@pytest.mark.parametrize(
    "change",
    [
        {"size": -1}, {"size": 10**9}, {"size": "x"}, {"size": None}, {"pieces": []}, {"pieces": ["00"]},
        {"pieces": None}, {"pieces": ["zz" * 32]}, {"blob": "00" * 32}, {"blob": 3}, {"pieces": ["00" * 32] * 2},
    ],
)  # fmt: skip
def test_a_list_of_pieces_that_does_not_fit_its_name_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BlobCorrupt):
        Pieces.from_json(Pieces.of(b"some bytes").to_json() | change, 10**6)


def test_tensors_come_back_with_every_bit_and_dtype(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    save_safetensors(path, tensors(), {"pattern": DType.BFLOAT16})
    loaded = load_safetensors(path)
    assert set(loaded) == set(tensors())
    for name, array in tensors().items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()
    assert read_header(path)["pattern"].dtype is DType.BFLOAT16
    with pytest.raises(ValueError):
        loaded["weight"][0, 0] = 1


def test_the_library_of_the_format_reads_what_is_written_and_the_other_way_round(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    save_safetensors(ours, tensors())
    read = safetensors.numpy.load_file(ours)
    assert {name: array.tobytes() for name, array in read.items()} == {n: a.tobytes() for n, a in tensors().items()}
    safetensors.numpy.save_file(tensors(), theirs, metadata={"by": "them"})
    assert bindings_root(theirs) == bindings_root(ours)


def test_a_file_is_named_by_its_tensors_and_not_by_their_place(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    save_safetensors(a, tensors())
    save_safetensors(b, dict(reversed(tensors().items())))
    assert a.read_bytes() == b.read_bytes()
    expected = {
        name: merkle.tensor_root(next(d for d in DType if STORAGE[d] == array.dtype), array.tobytes())
        for name, array in tensors().items()
    }
    assert bindings_root(a) == merkle.bindings_root(expected)
    save_safetensors(b, tensors(), {"pattern": DType.BFLOAT16})
    assert bindings_root(a) != bindings_root(b)


def test_tensors_that_are_not_aligned_in_a_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    header = {
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
    }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\x05" + struct.pack("<2f", 1.5, -2.0))
    assert load_safetensors(path)["b"].tolist() == [1.5, -2.0]


def _file(header: object, data: bytes = b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x01", _file(b"{"), _file([]), _file({"a": 1}), _file({"a": GOOD | {"dtype": "F64"}}),
        _file({"a": GOOD | {"shape": [3]}}), _file({"a": GOOD | {"shape": [-2]}}),
        _file({"a": GOOD | {"shape": [1.5]}}), _file({"a": GOOD | {"dtype": ["F32"]}}),
        _file({"a": GOOD | {"shape": [2**40, 2**40, 0], "data_offsets": [0, 0]}}, b""),
        _file({"a": GOOD | {"shape": [True, 2]}}), _file({"a": GOOD | {"data_offsets": [8, 0]}}),
        _file({"a": GOOD | {"data_offsets": [0]}}), _file({"a": GOOD | {"extra": 1}}), _file({"a": GOOD}, b"\0" * 7),
        _file({"a": GOOD}, b"\0" * 9), _file({"a": GOOD, "b": GOOD}, b"\0" * 16),
        _file(b'{"a": {}, "a": {}}'),
        (1 << 63).to_bytes(8, "little") + b"{}", _file(b"[" * 100_000), _file(b"\xff\xfe"),
        _file({"a" * 256: GOOD}), _file(b'{"\\ud800": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'),
        _file({"a": GOOD | {"shape": [2] + [1] * 100}}), _file({"a": GOOD | {"shape": [2**70, 0]}}),
    ],
)  # fmt: skip
def test_bytes_that_are_not_a_safetensors_file_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(TensorFileError):
        load_safetensors(path)
    assert describe(path)[0].computed is None


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_in_another_way(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    for data in (content, _file(content)):
        path.write_bytes(data)
        with suppress(TensorFileError):
            load_safetensors(path)


def test_arrays_that_programs_do_not_have_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(TensorFileError, match="float64"):
        save_safetensors(tmp_path / "t", {"a": np.zeros(1, np.float64)})
    with pytest.raises(TensorFileError, match="float32"):
        save_safetensors(tmp_path / "t", {"a": np.zeros(1, np.float32)}, {"a": DType.BFLOAT16})
    assert not (tmp_path / "t").exists()


def test_a_blob_is_found_by_its_root_and_by_what_it_computes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    path = tmp_path / "t.safetensors"
    save_safetensors(path, tensors())
    blob = store.put(path)
    root = bindings_root(path)
    assert blob == merkle.blob_root(path.read_bytes()).hex()
    assert store.read(blob) == store.read("0x" + root.hex()) == store.read(root) == path.read_bytes()
    assert store.names(root).kind is Kind.TENSORS and store.names(blob).computed == root.hex()
    assert blob in store and root in store and "00" * 32 not in store
    assert [names.blob for names in store] == [blob]


def test_other_bytes_have_one_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for data in (b"", b"hello", b"EIGT is not a program", b"EIGV\xff"):
        blob = store.put(data)
        assert store.names(blob).kind is Kind.OTHER and store.names(blob).computed is None
        assert store.read(blob) == data


def test_putting_the_same_bytes_again_changes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.put(b"same") == store.put(b"same")
    assert len(list(store)) == 1


def test_what_a_crash_left_of_a_blob_is_not_taken_for_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    blob = store.put(b"some bytes")
    store.path(blob).write_bytes(b"some")
    assert blob not in store
    store.put(b"some bytes")
    assert store.read(blob) == b"some bytes"
    (tmp_path / "names" / blob[:2] / f"{blob}.json").write_text("")
    assert blob not in store


def test_a_discarded_blob_is_gone_under_all_its_names(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    save_safetensors(tmp_path / "t", tensors())
    blob = store.put(tmp_path / "t")
    root = bindings_root(tmp_path / "t")
    store.discard(root)
    store.discard(root)
    assert blob not in store and root not in store
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["", "00", "g" * 64, "../../../etc/passwd", "0" * 65, b"\0" * 31])
def test_what_cannot_be_a_name_is_not_found(tmp_path: Path, name: str | bytes) -> None:
    with pytest.raises(BlobNotFound):
        LocalStore(tmp_path).path(name)


def test_names_are_written_in_many_ways_and_mean_one() -> None:
    assert parse_name("0x" + "AB" * 32) == parse_name(b"\xab" * 32) == parse_name(" " + "ab" * 32) == "ab" * 32


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    with pytest.raises(FileNotFoundError):
        store.put(tmp_path / "missing")
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreFull, match="no space"), writing(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(PermissionError), writing(tmp_path):
        raise PermissionError


def test_a_disk_that_is_full_in_the_middle_leaves_no_final_name(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    store = LocalStore(tmp_path)
    part = store.partial(b"\1" * 32)
    part.symlink_to("/dev/full")
    with pytest.raises(StoreFull), writing(part), part.open("wb") as file:
        file.write(b"x" * 100_000)
    assert list(store) == []
