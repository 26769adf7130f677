"""Pages of files that are mapped: asked for beside other work, before a run waits for each of them."""

import ctypes
from collections.abc import Iterable
from mmap import PAGESIZE
from threading import Thread
from typing import Any

from numpy.typing import NDArray

from eigentensor.system import memory
from eigentensor.threads import LIBC

READ = 22  #: Linux's MADV_POPULATE_READ, which systems before 5.14 refuse
AT_ONCE = 64 << 20  #: bytes that are asked for together
SHARE = 2  #: of the memory that arrays may have for their pages to stay there: one of so many parts


def fetched(arrays: Iterable[NDArray[Any]]) -> Thread:
    """A thread that has begun to fetch the pages of arrays, as reading all of them would. Of what memory might not
    hold nothing is fetched, and nothing fails: who reads waits for what is not there."""
    held = list(arrays)  # none goes while its pages are fetched
    thread = Thread(target=_fetch, args=(held,), name="pages", daemon=True)
    thread.start()
    return thread


def _fetch(arrays: list[NDArray[Any]]) -> None:
    if LIBC is None or sum(array.nbytes for array in arrays) > memory() // SHARE:
        return
    populate = LIBC.madvise
    populate.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for begin, end in _stretches(arrays):
        for start in range(begin, end, AT_ONCE):
            if populate(start, min(AT_ONCE, end - start), READ):
                return


def _stretches(arrays: Iterable[NDArray[Any]]) -> list[tuple[int, int]]:
    """Where whole pages of arrays lie, from and to; those that lie side by side together."""
    stretches: list[tuple[int, int]] = []
    for array in sorted(arrays, key=lambda array: array.ctypes.data):
        begin = array.ctypes.data // PAGESIZE * PAGESIZE
        end = -(-(array.ctypes.data + array.nbytes) // PAGESIZE) * PAGESIZE
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = stretches[-1][0], max(end, stretches[-1][1])
        elif array.nbytes:
            stretches.append((begin, end))
    return stretches
