"""Putting lowered calls together into a program: bodies shared, buffers in order, calls that nothing needs left out."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from eigentensor.program.expression import Lowered
from eigentensor.program.model import Body, Buffer, Call, Kind, Program, Result, Role, Variable
from eigentensor.program.validity import check

Key = Hashable


def assemble(
    calls: Sequence[tuple[Key, Lowered]],
    externals: Mapping[Any, Buffer],  # Any: a Mapping of Hashable would take no dict[str, Buffer]
    results: Mapping[tuple[Kind, str], tuple[Key, tuple[int, ...]]],
    variables: Sequence[Variable] = (),
    max_repeat: int = 1,
) -> Program:
    """The program of `numbered`."""
    return numbered(calls, externals, results, variables, max_repeat)[0]


def numbered(
    calls: Sequence[tuple[Key, Lowered]],
    externals: Mapping[Any, Buffer],
    results: Mapping[tuple[Kind, str], tuple[Key, tuple[int, ...]]],
    variables: Sequence[Variable] = (),
    max_repeat: int = 1,
) -> tuple[Program, dict[Key, int]]:
    """The valid program in which each call writes the buffer of its key, and the number of the buffer of each key.

    Keys of a call's arrays name results of earlier calls or `externals`; `results` say which key goes out, in which
    shape, under which kind and name. Calls, weights and constants that no result needs are left out; equal bodies and
    equal constants become one. Calls keep their order. Raises RuleError if what is put together is not valid, KeyError
    for a key that nothing writes.
    """
    needed = _needed(calls, (key for key, _ in results.values()))
    calls = [call for call in calls if call[0] in needed]
    read = [array.key for _, lowered in calls for array in lowered.arrays]
    buffers, numbers = _number_buffers(externals, read)
    known = sorted(variables)
    of_variable = {v.name: n for n, v in enumerate(known)}
    bodies: dict[Body, int] = {}
    made: list[Call] = []
    for key, lowered in calls:
        body = bodies.setdefault(lowered.body, len(bodies))
        arguments = tuple(numbers[array.key] for array in lowered.arrays)
        made.append(Call(body, arguments, tuple(of_variable[v.name] for v in lowered.variables)))
        numbers[key] = len(buffers) + len(made) - 1
    named = [
        Result(kind, name, numbers[key], shape) for (kind, name), (key, shape) in sorted(results.items(), key=_name)
    ]
    program = Program(tuple(known), tuple(buffers), tuple(bodies), tuple(made), tuple(named), max_repeat)
    check(program)
    return program, numbers


def _name(item: tuple[tuple[Kind, str], object]) -> tuple[Kind, str]:
    return item[0]


def _needed(calls: Sequence[tuple[Key, Lowered]], wanted: Iterable[Key]) -> set[Key]:
    needed = set(wanted)
    for key, lowered in reversed(calls):
        if key in needed:
            needed.update(array.key for array in lowered.arrays)
    return needed


def _number_buffers(externals: Mapping[Key, Buffer], read: Sequence[Key]) -> tuple[list[Buffer], dict[Key, int]]:
    """The buffer records in canonical order, and the number of each external that has one."""
    used = set(read)
    named = [(b, key) for key, b in externals.items() if b.role is not Role.CONSTANT]
    named = [(b, key) for b, key in named if b.role is not Role.WEIGHT or key in used]
    named.sort(key=lambda item: (item[0].role, item[0].name))
    buffers = [b for b, _ in named]
    numbers = {key: n for n, (_, key) in enumerate(named)}
    constants: dict[Buffer, int] = {}
    for key in dict.fromkeys(read):
        if key in externals and externals[key].role is Role.CONSTANT:
            numbers[key] = constants.setdefault(externals[key], len(buffers) + len(constants))
    return buffers + list(constants), numbers
