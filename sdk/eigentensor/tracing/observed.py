"""Observing every call of what gives out results alone, as a sandbox does: what calls write becomes results."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from eigentensor.program.binding import Results
from eigentensor.program.limits import RESULTS
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
                results = run(_giving_out(program, calls), given, bound)
                for call in calls:
                    flat = results.outputs[_name(program, call)].reshape(-1)
                    if observe is not None:
                        observe(number + call, flat)
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


def _giving_out(program: Program, calls: list[int]) -> Program:
    """The program with what these calls write as further outputs."""
    extra = [
        Result(Kind.OUTPUT, _name(program, call), buffer, (program.parameter(buffer).elements,))
        for call, buffer in ((call, len(program.buffers) + call) for call in calls)
    ]
    return replace(program, results=tuple(sorted((*program.results, *extra), key=lambda r: (r.kind, r.name.encode()))))


def _name(program: Program, call: int) -> str:
    """A name that no result of the program has."""
    mark = "~" * (1 + max((len(r.name) for r in program.results if not r.name.strip("~0123456789")), default=0))
    return f"{mark}{call}"
