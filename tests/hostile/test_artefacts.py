"""Attack 16: files that other tools execute, or unpack until memory is gone, are refused as what they are."""

import io
import json
import pickle
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.errors import BindingError, BlobCorrupt, ProgramError, TensorFileError
from eigentensor.program import decode
from eigentensor.store import Kind, LocalStore, load_safetensors
from eigentensor.store.parts import RESULTS, VARIABLES, decode_results, decode_variables
from eigentensor_client.files import read_inputs

MIB = 1 << 20


class Payload:
    """What a pickle would do to whoever loads it: create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.path), "w")


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(name: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npy_saying(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def tensor_file(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def malicious(canary: Path) -> dict[str, bytes]:
    """Each form in which somebody's framework would run the payload."""
    plain = pickle.dumps({"graph": Payload(canary)})
    return {
        "a pickle": plain,
        "a pickle of the first protocol": pickle.dumps(Payload(canary), protocol=0),
        "a checkpoint as an archive": zipped({"archive/data.pkl": plain, "archive/version": b"3"}),
        "a checkpoint as a tar": tarred("storages", plain),
        "the metadata of a sharded checkpoint": pickle.dumps([Payload(canary), {"shards": 2}], protocol=2),
        "an array of objects": npy(np.array([Payload(canary)], dtype=object)),
        "arrays in an archive": zipped({"x.npy": npy(np.array([Payload(canary)], dtype=object))}),
        "a pickle behind the magic of programs": b"EIGT" + plain,
        "a pickle behind the magic of variables": VARIABLES + plain,
        "a pickle behind the magic of results": RESULTS + plain,
        "a pickle as the header of tensors": tensor_file(plain),
        "a pickle as the data of tensors": tensor_file({}, plain),
    }  # fmt: skip


FORMS = list(malicious(Path("canary")))
FLOAT = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
LYING = {
    "a header longer than the file": (1 << 62).to_bytes(8, "little") + b"{}",
    "a header of 16 EiB": b"\xff" * 8 + b"{}",
    "a tensor of 4 EiB in no bytes": tensor_file({"a": FLOAT | {"shape": [1 << 60], "data_offsets": [0, 1 << 62]}}),
    "a shape that overflows 64 bits": tensor_file({"a": FLOAT | {"shape": [1 << 32, 1 << 32]}}, bytes(8)),
    "two tensors in the same bytes": tensor_file({"a": FLOAT, "b": FLOAT}, bytes(8)),
    "a tensor before the file": tensor_file({"a": FLOAT | {"data_offsets": [-8, 0]}}, bytes(8)),
    "a gap": tensor_file({"a": FLOAT | {"data_offsets": [8, 16]}}, bytes(16)),
    "the header read again as data": tensor_file({"a": FLOAT | {"shape": [1 << 20]}}, bytes(8)),
    "a header that nests without end": tensor_file(b'{"a":' * 50_000),
    "a bomb of brackets": tensor_file(b"[" * MIB),
    "a compressed bomb": zipped({"weights": bytes(64 * MIB)}),
}


@contextmanager
def in_bounded_memory(most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_malicious_file_is_executed_by_any_reader(form: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    data = malicious(canary)[form]
    for suffix in ("safetensors", "npy", "npz", "pt", "pkl"):
        path = tmp_path / f"x.{suffix}"
        path.write_bytes(data)
        with pytest.raises((TensorFileError, BindingError)):
            read_inputs([f"x=@{path}"])
    with pytest.raises(TensorFileError):
        load_safetensors(path)
    with pytest.raises(ProgramError):
        decode(data)
    for magic, read in ((VARIABLES, decode_variables), (RESULTS, decode_results)):
        with pytest.raises(BlobCorrupt):
            read(magic + data.removeprefix(magic))
    store = LocalStore(tmp_path / "store")
    names = store.names(store.put(data))
    assert (names.kind, names.computed) == (Kind.OTHER, None)
    assert not canary.exists()


def test_the_payload_would_be_executed_by_who_unpickles(tmp_path: Path) -> None:
    pickle.loads(malicious(tmp_path / "canary")["a pickle"])["graph"].close()
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize("lie", LYING)
def test_tensor_files_that_lie_are_refused_for_what_they_weigh(lie: str, tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(LYING[lie])
    with in_bounded_memory(MIB + 40 * path.stat().st_size), pytest.raises(TensorFileError):
        load_safetensors(path)


@pytest.mark.parametrize(
    "shape", ["(1099511627776,)", "(4611686018427387904, 4611686018427387904)", "(-1,)", "(1e9,)", "(9,)"]
)
def test_arrays_that_are_not_as_large_as_they_say_are_refused(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy_saying(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}", bytes(32)))
    with in_bounded_memory(MIB), pytest.raises(BindingError):
        read_inputs([f"x=@{path}"])


def test_an_array_whose_header_is_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy_saying(f"open({str(tmp_path / 'canary')!r}, 'w')"))
    with pytest.raises(BindingError):
        read_inputs([f"x=@{path}"])
    assert not (tmp_path / "canary").exists()


def test_what_a_blob_says_of_itself_does_not_matter(tmp_path: Path) -> None:
    """A bomb is stored as it is, by its own root, and nobody unpacks it."""
    bomb, store = LYING["a compressed bomb"], LocalStore(tmp_path)
    with in_bounded_memory(4 * MIB):
        blob = store.put(bomb)
    assert store.names(blob).size == len(bomb) < MIB
    assert blob == merkle.blob_root(bomb).hex()
