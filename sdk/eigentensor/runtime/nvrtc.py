"""CUDA C++ to PTX by NVRTC, which needs no GPU. PTX that could round otherwise than the text says is refused."""

import ctypes
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tinygrad.runtime.autogen import nvrtc
from tinygrad.runtime.support.c import DLL
from tinygrad.runtime.support.compiler_cuda import NVRTCCompiler

from eigentensor.errors import ExecutionError
from eigentensor.runtime.grid import Many
from eigentensor.runtime.gridded import Gridded, Queue
from eigentensor.runtime.toolchain import check_release

FLAGS = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
SHARED = 48 << 10  #: bytes that every group has without asking
#: Instructions that flush, approximate or contract, or leave it to the driver whether they do.
INEXACT = re.compile(
    r"^.*(?:\.ftz|\.approx|\.full|\.f64|\.f16|\.bf16|\.sat\.f32|\bmad\.[a-z.]*f32|\b(?:add|sub|mul|fma|div|rcp|sqrt)\.(?!rn\.)[a-z.]*f32).*$",
    re.MULTILINE,
)


def toolchain(architecture: str, groups: int, queue: Callable[[], Queue]) -> Gridded:
    """The compiler for GPUs of an architecture such as `sm_90` that run so many groups side by side.

    Raises ExecutionError if there is no NVRTC.
    """
    check_release()
    target = Many(groups, 256, SHARED)
    compiler = _compiler(architecture)

    def build(text: str) -> bytes:
        try:
            ptx: bytes = compiler.compile(text)
        except Exception as error:  # tinygrad's CompileError derives from nothing narrower
            raise ExecutionError(f"NVRTC failed: {str(error)[-2000:]}") from None
        return checked(ptx, text)

    return Gridded(f"NVRTC {release()} {architecture} {FLAGS}\n{target}", target, "cuda.h", build, queue, device="CUDA")


def checked(ptx: bytes, text: str) -> bytes:
    """The PTX of a text. Raises ExecutionError if an instruction of it may round otherwise than the text says."""
    found = INEXACT.search(ptx.decode(errors="replace").rstrip("\0"))
    if found:
        raise ExecutionError(f"NVRTC made an instruction that is not exact: {found[0].strip()}")
    if b"fma.rn.f32" in ptx and "mulacc(" not in text.partition(" ix;")[2]:
        raise ExecutionError("NVRTC contracted a product and a sum")
    return ptx


def release() -> str:
    """Raises ExecutionError if there is no NVRTC."""
    _load()
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


@cache
def _compiler(architecture: str) -> Any:
    _load()
    compiler = NVRTCCompiler(architecture)
    compiler.compile_options += FLAGS
    return compiler


@cache
def _load() -> None:
    """NVRTC where tinygrad finds it, else from the Python package of NVIDIA."""
    if "nvrtc" in DLL._loaded_:
        return
    package = find_spec("nvidia.cuda_nvrtc") if find_spec("nvidia") else None
    folders = [Path(folder) / "lib" for folder in (package.submodule_search_locations or [] if package else [])]
    found = [file for folder in folders for file in sorted(folder.glob("libnvrtc.so*"))]
    if not found:
        raise ExecutionError("NVRTC is not installed", fix="pip install nvidia-cuda-nvrtc-cu12")
    nvrtc.dll.__init__("nvrtc", str(found[0]))
