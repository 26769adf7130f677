"""The device CPU:LLVM: the same C text, read by clang, optimised and assembled by the newest libLLVM that there is.

Where clang is of another release, two compilers that were written years apart have to agree on every bit of a program.
"""

import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from tinygrad.runtime.support.c import DLL

from eigentensor.errors import ExecutionError
from eigentensor.runtime.cpu.toolchain import Toolchain, local

#: Names of the library, newest first, as tinygrad looks for it; older ones than 15 write no code that is tested.
NAMES = ("LLVM", *(f"LLVM-{release}" for release in range(21, 14, -1)))


@cache
def library() -> str:
    """The path of the newest libLLVM. Raises ExecutionError if there is none."""
    path: str | None = DLL.findlib("llvm", list(NAMES))
    if path is None:
        raise ExecutionError(
            "libLLVM is not installed: the device CPU:LLVM needs it",
            fix="Install it, on Debian with `apt-get install libllvm19`.",
        )
    return path


def command(what: str, *clang: str) -> tuple[str, ...]:
    """The command that makes `what` of C text, or of LLVM's own text if no clang reads it first."""
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("llvm_backend.py")), what, library(), *clang)


@cache
def toolchain() -> Toolchain:
    """The compiler of the device CPU:LLVM. Raises ExecutionError if clang or libLLVM is missing."""
    here = local()
    done = subprocess.run(command("describe"), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExecutionError(f"libLLVM at {library()} cannot be used: {done.stderr.strip()[-500:]}")
    identity = f"{here.identity}\n{done.stdout}"
    return replace(here, identity=identity, command=command("object", *here.command), device="CPU:LLVM")
