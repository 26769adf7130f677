"""CUDA C++ to object code by NVRTC, which needs no GPU.

On the way there is PTX, and PTX that could round otherwise than the text says is refused. Kept is the code for one
architecture: a driver need not be as new as the compiler, and has nothing left to compile.
"""

import ctypes
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tinygrad.device import CompileError
from tinygrad.helpers import to_char_p_p
from tinygrad.runtime.autogen import nvrtc
from tinygrad.runtime.support.c import DLL
from tinygrad.runtime.support.compiler_cuda import _get_bytes, nvrtc_check

from eigentensor.errors import ExecutionError
from eigentensor.runtime.build.compilers import check_release
from eigentensor.runtime.gpu.grid import Many
from eigentensor.runtime.gpu.gridded import Gridded, Queue
from eigentensor.runtime.reach import Reach

FLAGS = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
SHARED = 48 << 10  #: bytes that every group has without asking
COPIES = 80  #: the oldest architecture that copies to shared memory by itself
#: Instructions that flush, approximate, contract or order zeros, or leave it to the driver whether they do.
INEXACT = re.compile(
    r"^.*(?:\.ftz|\.approx|\.full|\.f64|(?<!cvt\.f32)\.f16|\.bf16|\.sat\.f32|\bmad\.[a-z.]*f32"
    r"|\b(?:min|max)\.[A-Za-z.]*f32\b(?!.*\b0f(?![08]0000000\b))"
    r"|\b(?:add|sub|mul|fma|div|rcp|sqrt)\.(?!rn\.)[a-z.]*f32).*$",
    re.MULTILINE,
)


def toolchain(architecture: str, groups: int, queue: Callable[[], Queue]) -> Gridded:
    """The compiler for GPUs of an architecture such as `sm_90` that run so many groups side by side.

    Raises ExecutionError if there is no NVRTC.
    """
    check_release()
    target = Many(groups, 256, SHARED, copies=int(re.sub(r"\D", "", architecture)) >= COPIES)

    def build(text: str) -> bytes:
        return compiled(architecture, text).code

    identity = f"NVRTC {release()} {architecture} {FLAGS}"
    command = (sys.executable, "-m", __name__, architecture)
    return Gridded(identity, target, "cuda.h", build, queue, command, _compiling(), device="CUDA")


def _compiling() -> Reach:
    """What another process needs that compiles with this library: no GPU."""
    library = Path(nvrtc.dll._name).resolve()  # a link may lead through what is not seen there
    environment = (("NVRTC_PATH", str(library)), ("LD_LIBRARY_PATH", str(library.parent)))
    return Reach((library.parent,), environment=environment)


class Compiled(NamedTuple):
    """What NVRTC made of a text, for people to read and for the device."""

    ptx: str
    code: bytes


def compiled(architecture: str, text: str) -> Compiled:
    """Raises ExecutionError if it does not compile, or if an instruction may round otherwise than the text says."""
    _load()
    program, options = nvrtc.nvrtcProgram(), [f"--gpu-architecture={architecture}", *FLAGS]
    try:
        nvrtc_check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel", 0, None, None))
        flags = to_char_p_p([option.encode() for option in options])
        nvrtc_check(nvrtc.nvrtcCompileProgram(program, len(options), flags), program)
        ptx = _get_bytes(program, nvrtc.nvrtcGetPTX, nvrtc.nvrtcGetPTXSize, nvrtc_check).rstrip(b"\0").decode()
        code: bytes = _get_bytes(program, nvrtc.nvrtcGetCUBIN, nvrtc.nvrtcGetCUBINSize, nvrtc_check)
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    except CompileError as error:
        raise ExecutionError(f"NVRTC failed: {str(error)[-2000:]}") from None
    if match := INEXACT.search(ptx):
        raise ExecutionError(f"NVRTC made an instruction that is not exact: {match[0].strip()}")
    if "fma.rn.f32" in ptx and "mulacc(" not in text.partition(" ix;")[2]:
        raise ExecutionError("NVRTC contracted a product and a sum")
    return Compiled(ptx, code)


def release() -> str:
    """Raises ExecutionError if there is no NVRTC."""
    _load()
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


@cache
def _load() -> None:
    """NVRTC where tinygrad finds it, else the newest of the Python packages of NVIDIA, which are named by release."""
    if "nvrtc" in DLL._loaded_:
        return
    package = find_spec("nvidia")
    folders = map(Path, package.submodule_search_locations or [] if package else [])
    libraries = [file for folder in folders for file in folder.glob("*/lib/libnvrtc.so.*") if file.suffix[1:].isdigit()]
    if not libraries:
        raise ExecutionError("NVRTC is not installed", fix="pip install nvidia-cuda-nvrtc-cu12")
    newest = max(libraries, key=lambda file: int(file.suffix[1:]))
    for file in newest.parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(file))  # it asks for this by name alone, and not every release says that it lies beside
    nvrtc.dll.__init__("nvrtc", str(newest))


if __name__ == "__main__":
    try:
        sys.stdout.buffer.write(compiled(sys.argv[1], sys.stdin.read()).code)
    except ExecutionError as failure:
        sys.exit(str(failure))
