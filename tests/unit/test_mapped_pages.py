"""Pages are fetched once for arrays that lie side by side, and what cannot be fetched is left to who reads."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from eigentensor.runtime.memory import pages
from eigentensor.store import load_safetensors, save_safetensors
from eigentensor.threads import LIBC

PAGE = mmap.PAGESIZE


def present(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bool:
    """Whether this process finds each page of an array without a fault: as its page table says."""
    begin, end = array.ctypes.data // PAGE, -(-(array.ctypes.data + array.nbytes) // PAGE)
    with Path("/proc/self/pagemap").open("rb") as file:
        file.seek(8 * begin)
        entries = np.frombuffer(file.read(8 * (end - begin)), np.uint64)
    return bool((entries >> np.uint64(63)).all())


@pytest.mark.skipif(LIBC is None, reason="Linux says what is there")
def test_all_pages_of_a_file_are_there_before_anybody_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "AT_ONCE", 16 * PAGE)
    path = tmp_path / "x.safetensors"
    save_safetensors(path, {name: np.ones((100, PAGE + 3), np.uint8) for name in "abc"})
    arrays = load_safetensors(path)
    assert not any(present(array) for array in arrays.values())
    pages.fetched(arrays.values()).join()
    assert all(present(array) for array in arrays.values())


def test_arrays_side_by_side_are_one_stretch() -> None:
    room = np.frombuffer(mmap.mmap(-1, 8 * PAGE), np.uint8)
    start = room.ctypes.data
    some = [room[PAGE + 5 : 2 * PAGE - 1], room[10:20], room[5 * PAGE :], room[2 * PAGE : 2 * PAGE + 1], room[3:3]]
    assert pages._stretches(some) == [(start, start + 3 * PAGE), (start + 5 * PAGE, start + 8 * PAGE)]


def test_nothing_is_fetched_that_memory_might_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    array, asked = np.zeros(3 * PAGE, np.uint8), list[int]()

    class Library:
        @staticmethod
        def madvise(start: int, size: int, advice: int) -> int:
            asked.append(size)
            return -1

    monkeypatch.setattr(pages, "LIBC", Library)
    monkeypatch.setattr(pages, "memory", lambda: array.nbytes * pages.SHARE - 1)
    pages.fetched([array]).join()
    assert not asked
    monkeypatch.setattr(pages, "memory", lambda: array.nbytes * pages.SHARE)
    monkeypatch.setattr(pages, "AT_ONCE", PAGE)
    pages.fetched([array]).join()
    assert asked == [PAGE]  # refused once, it is not asked again


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(4 * PAGE))
    with path.open("r+b") as file:
        array = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        file.truncate(PAGE)
    pages.fetched([array]).join()
    assert array[0] == 0
