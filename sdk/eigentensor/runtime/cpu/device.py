"""A processor as a device: object code in executable memory, and the table that runs it."""

import ctypes
import mmap
import platform
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import ExecutionError
from eigentensor.runtime.cpu.linking import linked
from eigentensor.threads import LIBC, helpers

#: One call in the driver's table, as in driver.c.
STEP = np.dtype([(name, np.int64) for name in ("kernel", "buffers", "variables", "units", "grain", "next", "done")])
#: Bytes of a cache line.
LINE = 64
#: Words of the driver's desk.
DESK = 16


class Code:
    """Object code in memory, for as long as this is held. It is linked with nothing: code that calls a function of a
    library is refused, by an ExecutionError."""

    def __init__(self, code: bytes) -> None:
        image = linked(code)
        if not image:
            raise ExecutionError("object code cannot be loaded: it is empty")
        access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._memory = mmap.mmap(-1, len(image), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, access)
        self._memory.write(image)
        #: Where the code begins in memory, for the driver's table.
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if (clear := _clear_cache()) is not None:
            clear(ctypes.c_void_p(self.address), ctypes.c_void_p(self.address + len(image)))


@cache
def _clear_cache() -> Any:
    """Shows a processor what was written as code; that of x86 sees it."""
    return None if platform.machine() in ("x86_64", "AMD64") else ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]


@lru_cache(maxsize=4096)
def load(code: bytes) -> Code:
    """The code in memory, once for each process."""
    return Code(code)


def units(code: Code) -> int:
    """How many parts a kernel's call has."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    # room for as many buffers as a body can have; with a negative `last` a kernel reads none of them
    none = (ctypes.c_void_p * 33)()
    return int(function(code.address)(ctypes.addressof(none), None, 0, -1))


class Driver:
    """Runs tables of calls on some threads of the process."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.function = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 2, *(ctypes.c_int64,) * 2)(code.address)
        self.desk = np.zeros(DESK, np.int64)
        of_libc = (getattr(LIBC, name) for name in ("sched_yield", "sem_post", "sem_wait"))
        self.desk[:3] = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in of_libc]
        self.helpers = 0

    def run(self, table: NDArray[Any], threads: int = 1) -> None:
        """Every step of the table, in order; the interpreter is free meanwhile."""
        if threads > 1:
            self.helpers += helpers.take(self.help, threads - 1 - self.helpers)
            helpers.make_way()
        table["next"] = table["done"] = 0
        self.function(address(self.desk), address(table), len(table), min(self.helpers, threads - 1))

    def help(self) -> None:
        """Takes part in what others run. Never ends."""
        self.function(address(self.desk), None, 0, 0)


@cache
def driver(code: bytes) -> Driver:
    """One for each object code in a process, for ever: its helpers go on using it."""
    return Driver(Code(code))


def address(array: NDArray[Any]) -> int:
    """Where the elements of an array begin; they live as long as the array does."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it may not be written, or has no elements, or gaps: this takes longer
        return int(array.ctypes.data)


def memory(size: int) -> NDArray[np.uint8]:
    """Zeroed memory of the host, aligned to pages."""
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)


def empty(dtype: Any, elements: int) -> NDArray[Any]:
    """An array whose memory is aligned to cache lines, and has not been written."""
    size = elements * np.dtype(dtype).itemsize
    room = np.empty(size + LINE, np.uint8)
    return np.ndarray(elements, dtype, room, -address(room) % LINE)
