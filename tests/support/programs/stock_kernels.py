"""Kernels in tinygrad's own hands: its code generation, its renderer, its clang. `python -m stock_kernels NAME`."""

import ctypes
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad.codegen import to_program
from tinygrad.helpers import Target
from tinygrad.renderer.cstyle import ClangRenderer

from eigentensor.runtime.cpu.device import Code
from support.programs.rewrite_rows import rows
from support.programs.rewrites import CASES, Rewrite


def stock(row: Rewrite) -> NDArray[Any]:
    """What tinygrad computes for the cases of a row."""
    program = to_program(row.ast, ClangRenderer(Target("CPU", arch="x86_64,native")))
    result = np.zeros(CASES, row.mean(row.before).dtype)
    arrays = (result, *row.arrays)
    pointers = [arrays[slot].ctypes.data for slot in program.arg.globals]  # those that are left
    code = Code(program.src[3].arg)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(code.address)(*pointers)
    return result


if __name__ == "__main__":
    stock(next(row for row in rows() if row.name == sys.argv[1]))
