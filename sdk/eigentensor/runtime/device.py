"""tinygrad's CPU device as far as it is used: object code in executable memory, and the table that runs it."""

import ctypes
import mmap
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad.device import TinyELF
from tinygrad.helpers import Target
from tinygrad.runtime.ops_cpu import CPUProgram
from tinygrad.runtime.support.elf import jit_loader

from eigentensor.errors import ExecutionError
from eigentensor.threads import pool

#: One call in the driver's table, as in driver.c.
STEP = np.dtype([(name, np.int64) for name in ("kernel", "buffers", "variables", "units", "grain", "next", "done")])


class Code(CPUProgram):  # type: ignore[misc]
    """Object code in memory. It is linked with nothing: code that calls a function of a library is refused."""

    def __init__(self, code: bytes) -> None:
        try:
            super().__init__(None, TinyELF(code, "kernel", Target("CPU"), ()))
        except (RuntimeError, NotImplementedError, StopIteration, ValueError) as error:
            raise ExecutionError(f"object code cannot be loaded: {error}") from error

    def _load(self, lib: bytes, base: int = 0) -> bytes:
        image: bytes = jit_loader(lib, base=base)
        return image

    @property
    def address(self) -> int:
        return int(self.addr)


@lru_cache(maxsize=4096)
def load(code: bytes) -> Code:
    """The code in memory, once for each process."""
    return Code(code)


def units(code: Code) -> int:
    """How many parts a kernel's call has."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    none = (ctypes.c_void_p * 33)()
    return int(function(code.address)(ctypes.addressof(none), None, 0, -1))


class Driver:
    """Runs a table of calls on some threads of the process."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(code.address)
        self.give_way = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value

    def run(self, table: NDArray[Any], threads: int = 1) -> None:
        """Every step of the table, in order; the interpreter is free meanwhile."""
        table["next"] = table["done"] = 0
        arguments = (table.ctypes.data, len(table), self.give_way)
        helpers = [pool(threads - 1).submit(self.function, *arguments) for _ in range(threads - 1)]
        self.function(*arguments)
        for helper in helpers:
            if not helper.cancel():
                helper.result()


def address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


def memory(size: int) -> NDArray[np.uint8]:
    """Zeroed memory of the host, aligned to pages."""
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)
