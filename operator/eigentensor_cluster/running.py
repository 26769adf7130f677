"""One program at a cluster, with what files hold: as `cluster run` executes it."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cluster.remote import RemoteSession
from eigentensor.cluster.resident import Resident, with_inputs_alone
from eigentensor.errors import BindingError
from eigentensor.merkle import program_root
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import decode, encode
from eigentensor.program.model import Program
from eigentensor.store.tensors import load_safetensors, save_safetensors
from eigentensor.talk import say
from eigentensor_cluster.schemas import ClusterResult, ClusterRun

Values = Mapping[str, NDArray[Any]]


@contextmanager
def ended_by_signals(line: str = "") -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: what it holds is let go, then the line says so, if there is one, and the
    exit code is 128 and the signal's number."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = [(number, signal.signal(number, end)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    except SystemExit:
        if line:
            say(line)
        raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def execute(
    session: RemoteSession, file: Path, inputs: Sequence[str], variables: Sequence[str]
) -> tuple[Program, Values]:
    """The results of a program file, and what was executed. Inputs are NAME=@FILE.npy or @FILE.safetensors, which may
    hold weights and states too, variables NAME=NUMBER. What was executed has inputs alone. Raises BindingError for what
    does not fit, ProgramError."""
    program = decode(file.read_bytes())
    if twice := program.outputs.keys() & program.new_states.keys():
        raise BindingError(f"{min(twice)!r} is both an output and a state of the program", fix="Rename the output.")
    results = Resident(session, program).run(_tensors(inputs), _variables(variables)).results
    return with_inputs_alone(program).program, results.outputs | results.states


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
