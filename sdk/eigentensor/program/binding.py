"""What a program is given, and what it gives back: named tensors on one side, numbered flat buffers on the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eigentensor.errors import BindingError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.fitting import Header, bound_buffers, check_names, check_variables, misfit, wanted
from eigentensor.program.model import Buffer, Kind, Program, Role


@dataclass(frozen=True, slots=True)
class Results:
    """Outputs and new states by name, shaped, in storage dtypes (bfloat16 as its uint16 pattern)."""

    outputs: dict[str, np.ndarray[Any, Any]]
    states: dict[str, np.ndarray[Any, Any]]


def bind(
    program: Program,
    tensors: Mapping[str, ArrayLike],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
) -> list[np.ndarray[Any, Any]]:
    """The buffers of the program's records in order, constants included: flat, contiguous, in storage dtypes.

    `tensors` are the inputs, weights and states by name. An array must have the program's dtype and shape; bfloat16 is
    given as uint16 patterns or as an array of that name. Scalars and lists are converted. Arrays are not copied if they
    fit. Raises BindingError, which names what was expected and what was given.
    """
    check_names("tensor", bound_buffers(program), tensors)
    check_variables(program, variables or {}, repeat)
    return [
        np.frombuffer(b.data, STORAGE[b.dtype].newbyteorder("<"))
        if b.role is Role.CONSTANT
        else bind_one(b, tensors[b.name])
        for b in program.buffers
    ]


def shaped(
    program: Program, tensors: Mapping[str, tuple[DType, np.ndarray[Any, Any]]]
) -> dict[str, np.ndarray[Any, Any]]:
    """Elements of some tensors, which are named by a root that has no shapes, in the program's shapes.

    Raises BindingError for a name that the program does not have, another dtype, another number of elements.
    """
    expected = {name: (b.dtype, b.shape) for name, b in bound_buffers(program).items()}
    return _shaped(expected, tensors)


def shaped_results(
    program: Program, kind: Kind, tensors: Mapping[str, tuple[DType, np.ndarray[Any, Any]]]
) -> dict[str, np.ndarray[Any, Any]]:
    """The same of outputs, or of new states."""
    results = [r for r in program.results if r.kind is kind]
    return _shaped({r.name: (program.parameter(r.buffer).dtype, r.shape) for r in results}, tensors)


def iteration_values(program: Program, variables: Mapping[str, int], iteration: int = 0) -> tuple[int, ...]:
    """The values of the program's variables, in order, in one iteration of a repeat."""
    return tuple(variables[v.name] + iteration * v.stride for v in program.variables)


def collect(program: Program, buffers: Sequence[np.ndarray[Any, Any]] | Mapping[int, np.ndarray[Any, Any]]) -> Results:
    """The results out of all buffers, those of the records and then those that the calls wrote; or by number out of
    those that are results."""

    def of(kind: Kind) -> dict[str, np.ndarray[Any, Any]]:
        return {r.name: buffers[r.buffer].reshape(r.shape) for r in program.results if r.kind is kind}

    return Results(of(Kind.OUTPUT), of(Kind.STATE))


def _shaped(
    expected: Mapping[str, tuple[DType, tuple[int, ...]]], tensors: Mapping[str, tuple[DType, np.ndarray[Any, Any]]]
) -> dict[str, np.ndarray[Any, Any]]:
    check_names("tensor", {name: expected[name] for name in tensors if name in expected}, tensors)
    for name, (actual, flat) in tensors.items():
        dtype, shape = expected[name]
        if (actual, flat.size) != (dtype, prod(shape)):
            raise BindingError(
                f"tensor {name!r}: expected {prod(shape)} elements of {dtype.name.lower()}, "
                f"given {flat.size} of {actual.name.lower()}"
            )
    return {name: flat.reshape(expected[name][1]) for name, (_, flat) in tensors.items()}


def bind_one(b: Buffer, value: ArrayLike) -> np.ndarray[Any, Any]:
    """The buffer of one record, as `bind` has it. Raises BindingError."""
    storage = STORAGE[b.dtype]
    if hasattr(value, "dtype"):
        array = np.asarray(value)
        if b.dtype is DType.BFLOAT16 and array.dtype.name == "bfloat16":
            array = array.view(storage)
    elif b.dtype is DType.BFLOAT16:
        raise BindingError(
            f"tensor {b.name!r}: expected {wanted(b)}, given a list", fix="Give uint16 patterns as an array."
        )
    else:
        try:
            array = np.asarray(value, storage)
        except (TypeError, ValueError, OverflowError) as error:
            raise BindingError(f"tensor {b.name!r}: expected {wanted(b)}, given what is none: {error}") from None
    if array.dtype != storage or array.shape != b.shape:
        raise misfit(b, Header(str(array.dtype), array.shape))
    flat = np.ascontiguousarray(array).reshape(-1)
    if b.dtype is DType.BOOL and flat.size and flat.view(np.uint8).max() > 1:
        raise BindingError(f"tensor {b.name!r}: a bool with bits other than 0 and 1", fix="Convert it with `!= 0`.")
    return flat
