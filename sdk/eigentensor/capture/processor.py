"""tinygrad's device CPU where clang is missing: code by tinygrad's own assembler, or by libLLVM, called at once.

tinygrad compiles the threads of its device CPU with clang, whatever compiles the kernels: without clang it has none.
What capture computes with it are weights that have no contents yet, never a program.
"""

import ctypes
import mmap
import platform
from typing import Any

from tinygrad.device import Compiled
from tinygrad.helpers import PARALLEL
from tinygrad.runtime import ops_cpu
from tinygrad.runtime.ops_python import PythonAllocator, PythonProgram, PythonRenderer


class X86Renderer(ops_cpu.X86Renderer):  # type: ignore[misc]
    """tinygrad's assembler, for one thread."""

    has_threads = False


class LLVMRenderer(ops_cpu.CPULLVMRenderer):  # type: ignore[misc]
    """libLLVM, for one thread."""

    has_threads = False


class Memory(PythonAllocator):  # type: ignore[misc]
    """Memory of Python's, aligned to pages: code may take for aligned what it reads."""

    def _alloc(self, size: int, _: Any) -> memoryview:
        return memoryview(mmap.mmap(-1, size))


class Code(ops_cpu.CPUProgram):  # type: ignore[misc]
    """A kernel that is called where it lies, on buffers that are memory of Python's."""

    def __call__(self, *buffers: memoryview, vals: tuple[int, ...] = (), **_: Any) -> None:
        """Runs it to its end."""
        pointers = [ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(buffer))) for buffer in buffers]
        self.fxn(*pointers, *map(ctypes.c_int64, vals))


class CPUDevice(Compiled):  # type: ignore[misc]
    """A processor with the first way to make code that there is; Python itself interprets where there is none."""

    def __init__(self, device: str) -> None:
        machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
        ways = [X86Renderer, LLVMRenderer, PythonRenderer]
        super().__init__(device, Memory(self), ways, Code, arch=f"{machine},native")

    def runtime(self, obj: Any) -> Any:
        """What runs a kernel: its code, or what interprets it."""
        return (PythonProgram if obj.target.renderer == "PYTHON" else Code)(self, obj)


def stand_in() -> None:
    """Lets this be tinygrad's device CPU in this process. No process is started to make code: that takes longer."""
    ops_cpu.CPUDevice = CPUDevice
    PARALLEL.value = 0
