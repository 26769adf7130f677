"""What an order names, fetched by its roots and held to its program, to be executed; and results by theirs.

A bindings root fixes names, dtypes and bytes of tensors. Their shapes, their order in a file and what else its header
says are not in it: every file that has the root is as good as any other, and the program gives the shapes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from eigentensor import merkle
from eigentensor.errors import BindingError, TensorFileError, WrongResult
from eigentensor.program import Kind, Program, Role, decode
from eigentensor.program.binding import Results, bind, shaped, shaped_results
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.store.gateway import Progress
from eigentensor.store.parts import decode_results, decode_variables
from eigentensor.store.tensors import load_flat
from eigentensor.task import NONE, Order

Tensors = Mapping[str, np.ndarray[Any, Any]]


class Source(Protocol):
    """Where the blobs come from that an order names: a gateway, or an operator that serves its calls' inputs."""

    store: LocalStore

    def fetch(self, name: str | bytes) -> Path:
        """The file of a blob in the local store, verified. Raises StoreError."""


@dataclass(frozen=True, slots=True)
class BoundProgram:
    """A program and all that an order binds to it, verified against the order's roots."""

    program: Program
    files: tuple[Path, ...]
    tensors: Tensors
    variables: Mapping[str, int]
    repeat: int


def fetch_program(gateway: Source, order: Order) -> Program:
    """The order's program. Raises StoreError, ProgramError, and BindingError if the two disagree."""
    program = decode(gateway.fetch(order.program).read_bytes())
    if program.semantics != order.semantics or not 1 <= order.repeat <= program.max_repeat:
        raise BindingError(
            f"the order asks for semantics {order.semantics} and {order.repeat} iterations, "
            f"the program has {program.semantics} and at most {program.max_repeat}"
        )
    return program


def fetch_bound(gateway: Source, order: Order) -> BoundProgram:
    """Everything that the order names, checked to fit the program. Raises StoreError, ProgramError, BindingError."""
    program = fetch_program(gateway, order)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    files: list[Path] = []
    roots = {Role.INPUT: order.inputs, Role.WEIGHT: order.weights, Role.STATE: order.states}
    for role, root in roots.items():
        if root != NONE:
            files.append(gateway.fetch(root))
            tensors |= _loaded(gateway, files[-1], program, role, root)
        else:
            _check_names(role, (), program.named(role))
    variables: dict[str, int] = {}
    if order.variables not in (NONE, merkle.variables_root({})):
        variables = decode_variables(gateway.fetch(order.variables).read_bytes())
    bind(program, tensors, variables, order.repeat)
    return BoundProgram(program, tuple(files), tensors, variables, order.repeat)


def load_role(path: Path, program: Program, role: Role) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs, weights or states of a program in a file that has their bindings root, in the program's shapes.

    Raises TensorFileError for no safetensors file, BindingError for other names, dtypes or numbers of elements.
    """
    flat = load_flat(path)
    _check_names(role, flat, program.named(role))
    return shaped(program, flat)


def fetch_results(
    gateway: GatewayClient, program: Program, outputs_root: bytes, progress: Progress | None = None
) -> Results:
    """The outputs and new states that have an outputs root.

    Raises BlobNotFound while the gateway does not have them, WrongResult if they do not fit the program.
    """
    outputs, states = fetch_roots(gateway, outputs_root)
    return Results(
        fetch_kind(gateway, program, Kind.OUTPUT, outputs, progress),
        fetch_kind(gateway, program, Kind.STATE, states, progress),
    )


def fetch_roots(gateway: GatewayClient, outputs_root: bytes) -> tuple[bytes, bytes]:
    """The bindings roots of the outputs and of the new states that an outputs root is made of. Raises BlobNotFound."""
    return decode_results(gateway.fetch(outputs_root).read_bytes())


def fetch_kind(
    gateway: GatewayClient, program: Program, kind: Kind, root: bytes, progress: Progress | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs, or the new states, that have a bindings root. Raises as `fetch_results`."""
    expected = program.outputs if kind is Kind.OUTPUT else program.new_states
    try:
        flat = load_flat(gateway.fetch(root, progress)) if expected else {}
        _check_names(kind, flat, expected)
        tensors = shaped_results(program, kind, flat)
    except (BindingError, TensorFileError) as error:
        raise WrongResult(f"the result does not fit the program: {error.what}") from None
    if merkle.kind_root(program, kind, tensors) != root:
        raise WrongResult(
            f"the {kind.name.lower()} tensors do not have the revealed root {root.hex()}",
            fix="Its executor revealed something that is no result of this program.",
        )
    return tensors


def _loaded(gateway: Source, path: Path, program: Program, role: Role, root: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a file that was fetched by their root; the cache forgets one that does not have it any more."""
    try:
        tensors = load_role(path, program, role)
        if merkle.role_root(program, role, tensors) != root:
            raise BindingError(
                f"the program's {role.name.lower()} tensors do not have the order's root {root.hex()}",
                fix="Their file was damaged in the cache, which forgets it now.",
            )
    except (BindingError, TensorFileError):
        gateway.store.discard(root)
        raise
    return tensors


def _check_names(part: Role | Kind, names: Iterable[str], expected: Iterable[str]) -> None:
    """A dispute opens a tensor under the root of its role: there must be no other in the file."""
    if set(names) != set(expected):
        raise BindingError(
            f"{part.name.lower()} tensors: given {', '.join(sorted(names)) or 'none'}",
            fix=f"The program has {', '.join(sorted(expected)) or 'none'}.",
        )
