"""One program at a cluster, with what files hold: as `cluster run` executes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cluster.remote import RemoteSession
from eigentensor.errors import BindingError
from eigentensor.merkle import program_root
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.codec import decode, encode
from eigentensor.program.fitting import check_names, wanted
from eigentensor.program.model import Kind, Program, Role
from eigentensor.store.tensors import load_safetensors, save_safetensors
from eigentensor_cluster.schemas import ClusterResult, ClusterRun

Values = Mapping[str, NDArray[Any]]


def with_inputs_alone(program: Program) -> Program:
    """The same computation, whose weights and states are inputs, and whose new states are outputs. Raises BindingError
    where a new state and an output have one name."""
    names = [result.name for result in program.results]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BindingError(f"{min(twice)!r} is both an output and a state of the program", fix="Rename the output.")
    records = [b if b.role is Role.CONSTANT else b._replace(role=Role.INPUT) for b in program.buffers]
    order = sorted(range(len(records)), key=lambda n: (records[n].role, records[n].name if records[n].name else n))
    place = {old: new for new, old in enumerate(order)}
    return replace(
        program,
        buffers=tuple(records[old] for old in order),
        calls=tuple(c._replace(arguments=tuple(place.get(a, a) for a in c.arguments)) for c in program.calls),
        results=tuple(sorted((r._replace(kind=Kind.OUTPUT) for r in program.results), key=lambda r: r.name)),
        max_repeat=1,
    )


def execute(
    session: RemoteSession, file: Path, inputs: Sequence[str], variables: Sequence[str]
) -> tuple[Program, Values]:
    """The results of a program file, and what was executed. Inputs are NAME=@FILE.npy or @FILE.safetensors, which may
    hold weights and states too, variables NAME=NUMBER. Raises BindingError for what does not fit, ProgramError."""
    program = with_inputs_alone(decode(file.read_bytes()))
    tensors, numbers, handles = _tensors(inputs), _variables(variables), count(1)
    check_names("tensor", program.named(Role.INPUT), tensors)
    root, taken, made = session.define(program), dict[str, int](), dict[str, int]()
    for name, buffer in program.named(Role.INPUT).items():
        value = tensors[name]
        if value.shape != buffer.shape or value.dtype != STORAGE[buffer.dtype]:
            raise BindingError(
                f"tensor {name!r}: expected {wanted(buffer)}, given {value.dtype} of shape {value.shape}"
            )
        taken[name] = next(handles)
        session.put(taken[name], value, buffer.dtype)
    for name in program.outputs:
        made[name] = next(handles)
    session.run(root, taken, made, numbers, freed=list(taken.values()))
    return program, {name: session.get(handle) for name, handle in made.items()}


def written(program: Program, results: Values, file: Path | None) -> ClusterRun:
    """Writes results into a safetensors file, if one is named; what there is to say about them."""
    dtypes = {name: program.parameter(result.buffer).dtype for name, result in program.outputs.items()}
    if file is not None:
        halves = {name: dtype for name, dtype in dtypes.items() if dtype is DType.BFLOAT16}
        save_safetensors(file, results, halves)
    made = tuple(ClusterResult(name, dtypes[name].name.lower(), value.shape) for name, value in results.items())
    return ClusterRun(program_root(encode(program)).hex(), None if file is None else str(file), made)


def lines(results: Values) -> Iterator[str]:
    """A line about each result."""
    for name, value in results.items():
        some = np.array2string(value.reshape(-1)[:4], separator=", ")
        yield f"{name}  {value.dtype} of shape {value.shape}  {some}"


def _tensors(words: Sequence[str]) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {}
    for word in words:
        name, at, place = ("", "@", word[1:]) if word.startswith("@") else word.partition("=@")
        if not at or not place:
            raise BindingError(f"cannot read input {word!r}", fix="Write name=@file.npy, or @file.safetensors.")
        if place.endswith(".npy"):
            if not name:
                raise BindingError(f"{place} has no name of its own", fix=f"Write name=@{place}.")
            tensors[name] = _array(Path(place))
        else:
            held = load_safetensors(Path(place))
            if name and name not in held:
                raise BindingError(f"{place} has no tensor {name!r}: it holds {', '.join(sorted(held))}")
            tensors |= {name: held[name]} if name else held
    return tensors


def _array(path: Path) -> NDArray[Any]:
    try:
        value: NDArray[Any] = np.load(path)
    except ValueError as error:
        raise BindingError(f"{path} is no array", fix="Write one with numpy.save.") from error
    return value


def _variables(words: Sequence[str]) -> dict[str, int]:
    variables = {}
    for word in words:
        name, _, number = word.partition("=")
        try:
            variables[name] = int(number)
        except ValueError:
            raise BindingError(f"cannot read variable {word!r}", fix="Write name=number.") from None
    return variables
