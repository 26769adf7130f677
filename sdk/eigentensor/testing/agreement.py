"""Does fast execution give the reference's bits? Every result of every call is compared, not only what goes out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor import reference
from eigentensor.program.model import Kind, Program, Result
from eigentensor.runtime import Executable


def disagreements(
    program: Program,
    tensors: Mapping[str, ArrayLike],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    **options: Any,
) -> list[str]:
    """One line for each call and state whose bits differ in the last iteration; `options` are those of Executable."""
    observed: dict[int, NDArray[Any]] = {}

    def observe(number: int, values: NDArray[Any]) -> None:
        observed[number % len(program.calls)] = values

    expected = reference.execute(program, tensors, variables, repeat, observe=observe)
    given = Executable(exposed(program), **options).run(tensors, variables, repeat)
    found = [_difference(f"call {j} (body {c.body})", observed[j], given.outputs[str(j)]) for j, c in _calls(program)]
    found += [_difference(f"state {name}", v.reshape(-1), given.states[name]) for name, v in expected.states.items()]
    return [line for line in found if line]


def exposed(program: Program) -> Program:
    """The program with the result of every call as an output, named by its number."""
    states = tuple(r for r in program.results if r.kind is Kind.STATE)
    first = len(program.buffers)
    outputs = tuple(
        Result(Kind.OUTPUT, str(j), first + j, (program.parameter(first + j).elements,)) for j, _ in _calls(program)
    )
    return replace(program, results=(*outputs, *states))


def _calls(program: Program) -> list[tuple[int, Any]]:
    return list(enumerate(program.calls))


def _difference(where: str, expected: NDArray[Any], given: NDArray[Any]) -> str:
    """The first element that differs, with both bit patterns; empty if there is none."""
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    a, b = expected.reshape(-1).view(bits), given.reshape(-1).view(bits)
    if a.shape != b.shape:
        return f"{where}: {a.size} elements expected, {b.size} given"
    different = np.flatnonzero(a != b)
    if not different.size:
        return ""
    i, digits = int(different[0]), 2 * bits.itemsize
    return (
        f"{where}: {different.size} of {a.size} elements differ, the first is {i}: "
        f"0x{int(a[i]):0{digits}x} expected, 0x{int(b[i]):0{digits}x} given"
    )
