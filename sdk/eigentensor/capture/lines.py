"""Lines of the user's code: who assigns, who binds, where an exception came from."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import tinygrad
from tinygrad.uop.ops import all_metadata

_LIBRARIES = tuple(str(Path(file).parent) for file in (tinygrad.__file__, np.__file__, __file__, inspect.__file__))


def is_library(path: str) -> bool:
    """Whether a file belongs to tinygrad, to NumPy, to this package or to the standard library."""
    return path.startswith((*_LIBRARIES, "<"))


def user_line() -> str:
    """file:line of the innermost caller that is the user's."""
    frame = inspect.currentframe()
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def defined_at(function: Any) -> str:
    """file:line where a function begins; empty for other callables."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def raised_at(error: BaseException) -> str:
    """file:line of the user's code that an exception came through last."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if not is_library(trace.tb_frame.f_code.co_filename):
            line = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def origin(u: Any) -> str:
    """Which Tensor method on which line of the user's code made this node, as far as known."""
    return next((str(m[0]) for n in (u, *u.src) if (m := all_metadata.get(n))), "")
