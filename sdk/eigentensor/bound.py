"""What an order names, fetched by its roots and held to its program, to be executed; and results by theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.chain import NONE, Order
from eigentensor.errors import BindingError, WrongResult
from eigentensor.program import Kind, Program, Role, decode
from eigentensor.program.binding import Results, bind
from eigentensor.store import GatewayClient, load_safetensors
from eigentensor.store.gateway import Progress
from eigentensor.store.parts import decode_results, decode_variables

Tensors = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Bound:
    """A program and all that an order binds to it, verified against the order's roots."""

    program: Program
    files: tuple[Path, ...]
    tensors: Tensors
    variables: Mapping[str, int]
    repeat: int


def fetch_program(gateway: GatewayClient, order: Order) -> Program:
    """The order's program. Raises StoreError, ProgramError, and BindingError if the two disagree."""
    program = decode(gateway.fetch(order.program).read_bytes())
    if program.semantics != order.semantics or not 1 <= order.repeat <= program.max_repeat:
        raise BindingError(
            f"the order asks for semantics {order.semantics} and {order.repeat} iterations, "
            f"the program has {program.semantics} and at most {program.max_repeat}"
        )
    return program


def fetch_bound(gateway: GatewayClient, order: Order) -> Bound:
    """Everything that the order names, checked to fit the program. Raises StoreError, ProgramError, BindingError."""
    program = fetch_program(gateway, order)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    files: list[Path] = []
    roots = {Role.INPUT: order.inputs, Role.WEIGHT: order.weights, Role.STATE: order.states}
    for role, root in roots.items():
        part: dict[str, np.ndarray[Any, Any]] = {}
        if root != NONE:
            files.append(gateway.fetch(root))
            part = load_safetensors(files[-1])
        expected = program.named(role)
        if part.keys() != expected.keys():  # a dispute opens a tensor under the root of its role
            raise BindingError(
                f"{role.name.lower()} tensors: given {', '.join(sorted(part)) or 'none'}",
                fix=f"The program has {', '.join(sorted(expected)) or 'none'}.",
            )
        tensors |= part
    variables: dict[str, int] = {}
    if order.variables not in (NONE, merkle.variables_root({})):
        variables = decode_variables(gateway.fetch(order.variables).read_bytes())
    bind(program, tensors, variables, order.repeat)
    for role, root in roots.items():
        # A file can have the name and other dtypes than the program: bfloat16 and uint16 look alike once they are read.
        if root != NONE and merkle.role_root(program, role, tensors) != root:
            gateway.store.discard(root)
            raise BindingError(
                f"the program's {role.name.lower()} tensors do not have the order's root {root.hex()}",
                fix="Their file has other dtypes than the program, or was damaged in the cache, which forgets it now.",
            )
    return Bound(program, tuple(files), tensors, variables, order.repeat)


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
    tensors = load_safetensors(gateway.fetch(root, progress)) if expected else {}
    try:
        tensors = {result.name: tensors[result.name].reshape(result.shape) for result in expected.values()}
    except (KeyError, ValueError) as error:
        raise WrongResult(f"the result does not fit the program: {error}") from None
    if merkle.kind_root(program, kind, tensors) != root:
        raise WrongResult(
            f"the {kind.name.lower()} tensors do not have the revealed root {root.hex()}",
            fix="Its executor revealed something that is no result of this program.",
        )
    return tensors
