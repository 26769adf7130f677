"""The helper for hashing gives hashlib's hashes, whatever it is compiled to, and is done without where it cannot be."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from eigentensor import hashing, merkle
from eigentensor.cache import DIGEST, Cache
from eigentensor.hashing import SMALL, Helper, Kind, by_hashlib, chosen
from eigentensor.numerics.dtypes import DType

Digests = Callable[[int, int, hashing.Bytes], bytes]
SIZES = [0, 1, 1023, 1024, 1025, SMALL - 1, SMALL, SMALL + 1, 77_777, merkle.PIECE - 1, merkle.PIECE, merkle.PIECE + 1]
ROOT = """
import numpy
from eigentensor import hashing, merkle
print(merkle.blob_root(numpy.arange(1 << 16, dtype="u4")).hex(), hashing.chosen().reason or "helper")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the helper, where this machine can have one."""
    folder = tmp_path_factory.mktemp("kernels")
    hashing.load(Cache(folder))
    return folder


@pytest.fixture(params=list(Kind), ids=lambda kind: kind.name.lower())
def helper(folder: Path, request: pytest.FixtureRequest) -> Helper:
    library = hashing.load(Cache(folder))
    if not library.supports(request.param):
        pytest.skip("this processor lacks the instructions")
    return Helper(library, request.param, 3)


@pytest.fixture
def fresh() -> Iterator[None]:
    """What this process has chosen does not count, nor does what a test lets it choose."""
    chosen.cache_clear()
    yield
    chosen.cache_clear()


@pytest.mark.parametrize(("tag", "size"), [(0, 1024), (1, 64), (255, 128)])
def test_the_helper_gives_hashlibs_hashes_of_any_number_of_messages(helper: Helper, tag: int, size: int) -> None:
    for count in (*range(20), 4099):
        data = np.random.default_rng(count).bytes(count * size)
        assert helper(tag, size, data) == by_hashlib(tag, size, data)


@pytest.mark.parametrize("offset", range(1, 8))
def test_messages_may_lie_anywhere(helper: Helper, offset: int) -> None:
    data = memoryview(np.random.default_rng(offset).bytes(9 * 1024 + offset))[offset:]
    assert helper(0, 1024, data) == by_hashlib(0, 1024, data)


def test_roots_are_the_same_with_and_without_the_helper(helper: Helper, monkeypatch: pytest.MonkeyPatch) -> None:
    def roots(digests: Digests) -> list[object]:
        monkeypatch.setattr(merkle, "digests", digests)
        results: list[object] = []
        for size in (*SIZES, 3 * merkle.PIECE + 5):
            data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
            tree = merkle.Tree()
            for start in range(0, size, 1_000_003):
                tree.update(data[start : start + 1_000_003])
            results.append((tree.root(), merkle.blob_root(data), merkle.piece_roots(data)))
            results.append((merkle.tensor_root(DType.UINT8, data), merkle.leaf_hashes(data)))
        return results

    assert roots(helper) == roots(by_hashlib)


def test_a_helper_is_used_in_a_process_that_was_forked_from_one_with_its_threads(folder: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from eigentensor import hashing; from eigentensor.cache import Cache\n"
        "helper = hashing.Helper(hashing.load(Cache(Path(sys.argv[1]))), 0, 2); data = bytes(4 << 20)\n"
        "expected = helper(0, 1024, data); child = os.fork()\n"
        "if not child: os._exit(helper(0, 1024, data) != expected)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert subprocess.run([sys.executable, "-c", program, str(folder)], timeout=60, check=False).returncode == 0


@pytest.mark.usefixtures("fresh")
def test_little_data_does_not_wait_for_the_helper() -> None:
    merkle.blob_root(bytes(SMALL - 1))
    assert chosen.cache_info().currsize == 0
    merkle.blob_root(bytes(SMALL))
    assert chosen.cache_info().currsize == 1


def test_what_was_compiled_is_loaded_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_compiled", lambda *_: pytest.fail("compiled"))
    assert hashing.load(Cache(folder)).supports(Kind.PORTABLE)


@pytest.mark.parametrize("harm", ["shortened", "changed", "writable by others"])
def test_what_may_not_be_what_was_compiled_is_compiled_again(harm: str, folder: Path, tmp_path: Path) -> None:
    (code,) = folder.glob("*/*.o")
    copy = tmp_path / code.parent.name / code.name
    copy.parent.mkdir()
    data = bytearray(code.read_bytes())
    if harm == "changed":
        data[-1] ^= 1
    copy.write_bytes(data[:-1] if harm == "shortened" else data)
    copy.chmod(0o666 if harm == "writable by others" else 0o644)
    assert hashing.load(Cache(tmp_path)).supports(Kind.PORTABLE)
    assert copy.read_bytes() == code.read_bytes() and copy.stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        (None, "not installed"),
        ("echo no such flag >&2; exit 1", "no such flag"),
        ('for last; do :; done; echo rubbish > "$last"', "file too short|invalid ELF header"),
        ('sed s/0x428a2f98/0x428a2f99/ | exec /usr/bin/env PATH="$OTHERS" clang "$@"', "wrong hashes"),
    ],
    ids=["none", "fails", "writes rubbish", "miscompiles"],
)
def test_without_a_compiler_that_does_its_work_hashlib_gives_the_roots(
    compiler: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OTHERS", os.environ["PATH"])
    folder = tmp_path / "bin"
    folder.mkdir()
    if compiler is None:
        monkeypatch.setenv("PATH", str(folder))
    else:
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        (folder / "clang").write_text(f"#!/bin/sh\n{compiler}\n")
        (folder / "clang").chmod(0o755)
    assert chosen().helper is None
    assert re.search(reason, chosen().reason)
    data = bytes(range(256)) * 1024
    assert merkle.leaf_hashes(data) == [sha256(b"\0" + data[:1024]).digest()] * 256


@pytest.mark.usefixtures("fresh")
def test_where_nothing_can_be_kept_the_helper_serves_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert chosen().helper is not None


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("whole", [True, False])
def test_a_process_hashes_with_what_it_is_given_or_with_hashlib(
    whole: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "_override", None)
    monkeypatch.setattr(hashing, "object_code", lambda _: pytest.fail("looked for another"))
    (code,) = folder.glob("*/*.o")
    (tmp_path / "library").write_bytes(code.read_bytes()[DIGEST:] if whole else b"")
    hashing.give(tmp_path / "library", 3)
    helper = chosen().helper
    assert (helper.threads if helper else "file too short" in chosen().reason) == (3 if whole else True)
    assert merkle.leaf_hashes(bytes(1 << 16)) == [sha256(bytes(1025)).digest()] * 64


@pytest.mark.usefixtures("fresh")
def test_without_a_home_hashlib_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert chosen() == (None, "Could not determine home directory.")


def test_processes_that_begin_together_all_get_the_helper(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", ROOT]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = {process.communicate(timeout=120)[0] for process in processes}
    assert outputs == {f"{merkle.blob_root(np.arange(1 << 16, dtype='u4')).hex()} helper\n"}
    assert len(list(tmp_path.glob("eigentensor/kernels/*/*"))) == 1
