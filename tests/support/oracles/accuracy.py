"""How far the functions of `capture.functions` are from the real ones, in units in the last place of float32."""

import ctypes
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.lowering import functions
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, counter, load, node, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

#: The largest errors over all 2^32 operands, rounded up to the second place; sdk/README.md promises them.
EXHAUSTIVE = {
    "acos": 1.14, "acosh": 1.78, "asin": 1.19, "asinh": 1.24, "atan": 1.22, "atanh": 1.42, "cos": 0.84, "cosh": 1.15,
    "erf": 1.09, "exp": 0.88, "exp2": 0.88, "gelu": 1.72, "log": 0.75, "log10": 0.86, "log2": 0.94, "rsqrt": 1.5,
    "sigmoid": 0.95, "sin": 0.83, "sinh": 1.2, "softplus": 1.95, "tan": 1.2, "tanh": 1.34,
}  # fmt: skip
#: More than the largest errors over every 64th operand.
DENSE = {
    "expm1": 1.5, "gelu_tanh": 1.8, "log1p": 0.8, "mish": 2.1, "silu": 1.8,
}  # fmt: skip
BOUNDS = EXHAUSTIVE | DENSE
#: power has two operands; the largest error seen.
POWER_BOUND = 1.1


def _rsqrt(x: Node) -> Node:
    """What tinygrad composes: each of the two operations is rounded correctly."""
    return node(Op.RECIPROCAL, x.dtype, node(Op.SQRT, x.dtype, x))


EXPRESSIONS: dict[str, Callable[..., Node]] = {n: getattr(functions, n) for n in functions.__all__} | {"rsqrt": _rsqrt}


def _each(function: Callable[[float], float]) -> Callable[[Float64], Float64]:
    return lambda x: np.array([function(value) for value in x.tolist()], np.float64)


def _gated(x: Float64, exponent: Float64) -> Float64:
    """x/(1 + e^-exponent), the exponent having the sign of x."""
    e = np.exp(-np.abs(exponent))
    return np.asarray(np.where(x < 0, np.where(e == 0, -0.0, x * e), x) / (1 + e))


def _gelu(x: Float64) -> Float64:
    size = np.minimum(np.abs(x), 40)
    tail: Float64 = size * _each(math.erfc)(size / math.sqrt(2)) / 2
    return np.asarray(np.where(x < 0, -0.0, x) - tail)


def _mish(x: Float64) -> Float64:
    e = np.exp(-np.abs(x))
    upper, lower = (1 + 2 * e) / (1 + 2 * e + 2 * e * e), e * (2 + e) / (2 + 2 * e + e * e)
    return np.asarray(np.where(x < 0, np.where(e == 0, -0.0, x * lower), x * upper))


#: What float64 computes, where NumPy has no function of that name.
EXACT: dict[str, Callable[..., Float64]] = {
    "sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "silu": lambda x: _gated(x, x),
    "gelu_tanh": lambda x: _gated(x, math.sqrt(8 / math.pi) * x * (1 + 0.044715 * x * x)),
    "gelu": _gelu,
    "mish": _mish,
    "erf": _each(math.erf),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
}


class Error(NamedTuple):
    """The largest error, and the pattern of the operand that has it."""

    units: float
    operand: int


def program_of(name: str, elements: int, dtype: DType = DType.FLOAT32, operands: tuple[str, ...] = ("x",)) -> Program:
    """Output y = the function of the inputs named, all flat."""
    axis = Axis(0, elements)
    value = EXPRESSIONS[name](*(load(Array(x, dtype, elements), counter(axis)) for x in operands))
    externals: dict[Hashable, Buffer] = {x: Buffer(Role.INPUT, dtype, (elements,), x) for x in operands}
    return assemble([("y", to_body(value, (axis,)))], externals, {(Kind.OUTPUT, "y"): ("y", (elements,))})


@np.errstate(all="ignore")
def by_float64(name: str, *operands: Float32) -> Float64:
    function = EXACT.get(name) or getattr(np, name)
    return np.asarray(function(*(x.astype(np.float64) for x in operands)), np.float64)


@np.errstate(all="ignore")
def units(y: Float32, name: str, *operands: Float32) -> NDArray[np.float64]:
    """|y - f(operands)| in float32 units of f, infinite where one is NaN or zero and the other is not the same.

    The exact value is float64's, whose own error is below 10^-8 units. Infinity counts as 2^128, the number that it
    stands for when a result is rounded.
    """
    exact = by_float64(name, *operands)
    expected, answer = np.clip(exact, -(2.0**128), 2.0**128), np.clip(y.astype(np.float64), -(2.0**128), 2.0**128)
    unit = np.exp2(np.maximum(np.frexp(np.minimum(np.abs(expected), 2.0**127))[1] - 24, -149))
    error = np.asarray(np.abs(answer - expected) / unit)
    same = (np.isnan(y) & np.isnan(exact)) | ((y == exact) & (np.signbit(y) == np.signbit(exact)))
    beyond = np.isnan(error) | (exact == 0)
    return np.where(same, 0.0, np.where(beyond, np.inf, error))


def by_reference(name: str, x: Float32) -> Float32:
    result: Float32 = reference.execute(program_of(name, x.size), {"x": x}).outputs["y"]
    return result


@cache
def library() -> ctypes.CDLL:
    """accuracy.c: `units` and their maximum for all functions of one operand, fast enough for all of 2^32."""
    clang = shutil.which("clang")
    assert clang is not None, "clang is not installed: scripts/setup installs it"
    with tempfile.TemporaryDirectory(prefix="eigentensor-") as folder:
        target = Path(folder) / "accuracy.so"
        command = [clang, "-O2", "-shared", "-fPIC", str(Path(__file__).with_suffix(".c")), "-lm", "-o", str(target)]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(target))
    array = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
    loaded.worst.argtypes = (ctypes.c_char_p, array, array, ctypes.c_size_t, ctypes.POINTER(ctypes.c_double))
    loaded.worst.restype = ctypes.c_size_t
    return loaded


def worst_in_c(loaded: ctypes.CDLL, name: str, x: Float32, y: Float32) -> Error:
    """The largest of `units(y, name, x)`, by the C library."""
    largest = ctypes.c_double()
    place = loaded.worst(name.encode(), x, y, x.size, ctypes.byref(largest))
    assert place < x.size, f"accuracy.c has no {name}"
    return Error(largest.value, int(x.view(np.uint32)[place]))


def worst(name: str, operands: Iterable[Float32], compute: Callable[[str, Float32], Float32] = by_reference) -> Error:
    """The largest error of a function on operands that come in parts."""
    result = Error(0.0, 0)
    for x in operands:
        errors = units(compute(name, x), name, x)
        place = int(np.argmax(errors))
        result = max(result, Error(float(errors[place]), int(x.view(np.uint32)[place])))
    return result
