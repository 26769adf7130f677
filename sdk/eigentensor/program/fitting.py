"""Whether what a program is given fits it, as far as names, dtypes, shapes and numbers tell: without elements."""

from collections.abc import Mapping
from typing import NamedTuple

from eigentensor.errors import BindingError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Buffer, Program, Role


class Header(NamedTuple):
    """A tensor without its elements: its dtype as NumPy names it, and its shape."""

    dtype: str
    shape: tuple[int, ...]


def header_of(dtype: DType, shape: tuple[int, ...]) -> Header:
    """The header of an array with such elements: bfloat16 is held as uint16 patterns."""
    return Header("uint16" if dtype is DType.BFLOAT16 else dtype.name.lower(), shape)


def bound_buffers(program: Program) -> dict[str, Buffer]:
    """The records of the tensors that a program is given, by name."""
    return {b.name: b for b in program.buffers if b.role is not Role.CONSTANT}


def takes_bools(program: Program) -> bool:
    """Whether a tensor is given to it that may not fit though its header does: bools are 0 and 1."""
    return any(b.dtype is DType.BOOL for b in bound_buffers(program).values())


def fit(
    program: Program, headers: Mapping[str, Header], variables: Mapping[str, int] | None = None, repeat: int = 1
) -> None:
    """Raises BindingError, which names what was expected and what was given, unless tensors with these headers fit."""
    expected = bound_buffers(program)
    check_names("tensor", expected, headers)
    check_variables(program, variables or {}, repeat)
    for name, b in expected.items():
        if headers[name] != header_of(b.dtype, b.shape):
            raise misfit(b, headers[name])


def check_names(what: str, expected: Mapping[str, object], actual: Mapping[str, object]) -> None:
    """Raises BindingError unless both have the same names; `what` is what they name."""
    if expected.keys() != actual.keys():
        missing, unknown = sorted(expected.keys() - actual.keys()), sorted(actual.keys() - expected.keys())
        lacks = f"missing {', '.join(missing)}" if missing else ""
        more = f"unknown {', '.join(unknown)}" if unknown else ""
        names = ", ".join(sorted(expected)) or "none"
        raise BindingError(
            f"{what}s: {' and '.join(filter(None, (lacks, more)))}", fix=f"Give what the program has: {names}."
        )


def check_variables(program: Program, variables: Mapping[str, int], repeat: int) -> None:
    """Raises BindingError unless a program has these variables, in every iteration within their bounds."""
    if not 1 <= repeat <= program.max_repeat:
        raise BindingError(f"repeat {repeat}, the program allows 1…{program.max_repeat}")
    check_names("variable", {v.name: v for v in program.variables}, variables)
    for v in program.variables:
        first = variables[v.name]
        last = first + (repeat - 1) * v.stride
        if not (v.minimum <= first <= v.maximum and v.minimum <= last <= v.maximum):
            runs = f"{first}" if repeat == 1 else f"{first}…{last} in {repeat} iterations"
            raise BindingError(f"variable {v.name!r} is {runs}, expected {v.minimum}…{v.maximum}")


def wanted(b: Buffer) -> str:
    """What a tensor is to be, in words."""
    return f"{b.dtype.name.lower()} of shape {b.shape}"


def misfit(b: Buffer, actual: Header) -> BindingError:
    """The error for a tensor of another dtype or shape."""
    kind, storage = " as uint16 patterns" if b.dtype is DType.BFLOAT16 else "", header_of(b.dtype, b.shape).dtype
    both_floats = storage.startswith("float") and actual.dtype.lstrip("<>").startswith("f")
    return BindingError(
        f"tensor {b.name!r}: expected {wanted(b)}{kind}, given {actual.dtype} of shape {actual.shape}",
        fix=f'Cast it: {b.name}.astype("{storage}"), and save it anew if it is a file.'
        if actual.shape == b.shape and both_floats
        else "",
    )
