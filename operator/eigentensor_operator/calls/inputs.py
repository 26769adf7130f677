"""What the body of a call holds: inputs, and states where the operator does not have them. Pure."""

from collections.abc import Callable
from typing import NamedTuple

from eigentensor import merkle
from eigentensor.channel.calls import Computation
from eigentensor.errors import BindingError, CallRefused
from eigentensor.program import Program, Role
from eigentensor.program.binding import bind_one, shaped
from eigentensor.program.fitting import check_variables
from eigentensor.reexecution.inputs import Tensors
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor.task.order import NONE


class Inputs(NamedTuple):
    """The inputs of a call with the root over them; the states that came with them, none where the program has none,
    None where they are kept by their root; and their files by root."""

    root: bytes
    inputs: Tensors
    states: Tensors | None
    files: dict[bytes, bytes]


def read_inputs(program: Program, computation: Computation, body: bytes, is_kept: Callable[[bytes], bool]) -> Inputs:
    """What a body, a safetensors file, holds for a computation; `is_kept` says whether states are here by their root.

    Raises TensorFileError, BindingError if it does not fit; CallRefused for states that are not here.
    """
    arrays = shaped(program, parse_flat(body)) if body else {}
    wanted, named = program.named(Role.INPUT), program.named(Role.STATE)
    inputs = {name: array for name, array in arrays.items() if name in wanted}
    brought = {name: array for name, array in arrays.items() if name in named}
    if (unknown := arrays.keys() - inputs.keys() - brought.keys()) or inputs.keys() != wanted.keys():
        raise BindingError(
            f"{min(unknown)!r} is no input" if unknown else f"{min(wanted.keys() - inputs.keys())!r} is missing",
            fix=f"Send {', '.join(sorted(wanted)) or 'nothing'}.",
        )
    root, files = NONE, {}
    if wanted:
        root = merkle.role_root(program, Role.INPUT, inputs)
        files[root] = body if not brought else _file(program, Role.INPUT, inputs)
    states = _states(program, computation.states, brought, is_kept)
    if brought:
        files[computation.states] = _file(program, Role.STATE, brought)
    check_variables(program, computation.variables, computation.repeat)
    for name, array in arrays.items():
        bind_one(wanted.get(name) or named[name], array)
    return Inputs(root, inputs, states, files)


def read_states(program: Program, file: bytes) -> Tensors:
    """The states of a program in a file that was kept."""
    return shaped(program, parse_flat(file, "the file of states"))


def _states(program: Program, root: bytes, brought: Tensors, is_kept: Callable[[bytes], bool]) -> Tensors | None:
    """The states that a call goes on from; None: they are kept."""
    named = program.named(Role.STATE)
    if not named:
        if root != NONE:
            raise BindingError("the program has no states", fix="Leave `states` out of the query.")
        return {}
    if brought:
        if brought.keys() != named.keys():
            raise BindingError("some states are missing", fix="Send all of them, or none that are here already.")
        if merkle.role_root(program, Role.STATE, brought) != root:
            raise BindingError("the states in the body do not have the root in the query", fix="Name their root.")
        return brought
    if root == NONE or not is_kept(root):
        raise CallRefused("the states are not here", fix="Send them beside the inputs.")
    return None


def _file(program: Program, role: Role, tensors: Tensors) -> bytes:
    return dump_safetensors(tensors, {name: b.dtype for name, b in program.named(role).items()})
