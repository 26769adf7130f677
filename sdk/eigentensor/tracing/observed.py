"""Observing every call of what gives out results alone, as a sandbox does: what calls write becomes results."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from eigentensor.program.binding import Results
from eigentensor.program.limits import ELEMENTS, RESULTS
from eigentensor.program.model import Kind, Program, Result
from eigentensor.reference import Values
from eigentensor.tracing.execution import Execute

#: The results of one iteration of a program, on tensors and variables by name.
Run = Callable[[Program, Mapping[str, Any], Mapping[str, int]], Results]
#: Bytes that one run gives out beyond the results of the last call among them.
MOST = 1 << 30


def observed_by(run: Run, most: int = MOST) -> Execute:
    """An `Execute` out of a `Run`, which is called as often as it takes to give out at most `most` bytes at a time."""

    def execute(
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        observe: Callable[[int, Values], None] | None = None,
    ) -> Results:
        results, bound = Results({}, {}), dict(variables or {})
        for iteration in range(repeat):
            given, number = {**tensors, **results.states}, iteration * len(program.calls)
            for calls in _portions(program, most if observe else None):
                more, names = giving_out(program, [len(program.buffers) + call for call in calls])
                results = run(more, given, bound)
                for call, name in zip(calls, names.values(), strict=True):
                    if observe is not None:
                        observe(number + call, results.outputs[name].reshape(-1))
            bound = {v.name: bound[v.name] + v.stride for v in program.variables}
        return Results({name: results.outputs[name] for name in program.outputs}, results.states)

    return execute


def _portions(program: Program, most: int | None) -> Iterator[list[int]]:
    """All calls in order, as many at a time as their bytes and the number of results allow; none if `most` is None."""
    calls: list[int] = []
    size, room = 0, RESULTS - len(program.results)
    for call in range(len(program.calls) if most is not None else 0):
        dtype, elements = program.parameter(len(program.buffers) + call)
        size += elements * dtype.size
        if calls and most is not None and (size > most or len(calls) == room):
            yield calls
            calls, size = [], elements * dtype.size
        calls.append(call)
    yield calls


def giving_out(program: Program, buffers: Iterable[int]) -> tuple[Program, dict[int, str]]:
    """The program with these buffers as further outputs, and their names, which no result of the program has.

    It is valid if the program is, `refuse` has nothing against it, and there are at most RESULTS results.
    """
    marks = (f"~{n}~" for n in count())  # short ones: a name has its bound
    mark = next(mark for mark in marks if not any(r.name.startswith(mark) for r in program.results))
    names = {buffer: f"{mark}{buffer}" for buffer in buffers}
    extra = [Result(Kind.OUTPUT, name, b, _shape(program.parameter(b).elements)) for b, name in names.items()]
    ordered = sorted((*program.results, *extra), key=lambda r: (r.kind, r.name.encode()))
    return replace(program, results=tuple(ordered)), names


def _shape(elements: int) -> tuple[int, ...]:
    """An extent is less than ELEMENTS, the most that a buffer may have."""
    return (elements,) if elements < ELEMENTS else (2, elements // 2)
