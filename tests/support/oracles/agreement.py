"""Does fast execution give the reference's bits? Every result of every call is compared, not only what goes out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor import reference
from eigentensor.program.binding import Results
from eigentensor.program.model import Kind, Program, Result
from eigentensor.runtime import CompiledGraph
from support.generated.programs import Example
from support.generated.trials import Trial
from support.oracles.sets import observe_sets

#: Tensors, variables and repeat to results: `CompiledGraph.run`.
Run = Callable[[Mapping[str, Any], Mapping[str, int], int], Results]
#: A way of executing programs.
Way = Callable[[Program], Run]
#: Flat results by call; of a group of sets with a row for each.
Calls = Mapping[int, NDArray[Any]]
#: So many sets of a group also run without giving out every call: then results lie over others.
PLAIN = 3


class Observable(Protocol):
    """A `Run` that shows the result of each call."""

    def __call__(
        self,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        observe: Callable[[int, NDArray[Any]], None] | None = None,
    ) -> Results: ...


@dataclass(frozen=True, slots=True)
class Difference:
    """Elements of a result whose bits are not the reference's: how many of how many, and the first with its patterns.

    `call` is None for what the program gives out, compared where all calls agree when each of them is given out.
    """

    where: str
    call: int | None
    count: int
    elements: int
    first: int
    expected: str
    actual: str

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.count} of {self.elements} elements differ, the first is {self.first}: "
            f"{self.expected} expected, {self.actual} given"
        )


def disagreements(
    program: Program,
    tensors: Mapping[str, ArrayLike],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    **options: Any,
) -> list[str]:
    """One line for each call and result whose bits differ in the last iteration; `options` are CompiledGraph's."""
    arrays: dict[str, Any] = dict(tensors)
    example = Example(program, arrays, dict(variables or {}), repeat)
    return [str(difference) for difference in differences(example, lambda of: CompiledGraph(of, **options).run)]


def differences(example: Example, way: Way, expected: Calls | None = None) -> list[Difference]:
    """Every call of the last iteration that differs; if none does, every result of the program that does.

    `expected` is what `calls_of` gives for the example.
    """
    program, arguments = example.program, (example.tensors, example.variables, example.repeat)
    expected = calls_of(example) if expected is None else expected
    everything = way(exposed(program))(*arguments)
    calls = (
        _difference(f"call {j} (body {call.body})", j, expected[j], everything.outputs[str(j)])
        for j, call in enumerate(program.calls)
    )
    return [d for d in calls if d] or [d for d in _of_results(program, expected, way(program)(*arguments)) if d]


def calls_of(example: Example) -> Calls:
    """What the reference gives for each call in the last iteration."""
    results: dict[int, NDArray[Any]] = {}

    def observe(number: int, values: NDArray[Any]) -> None:
        results[number % len(example.program.calls)] = values

    reference.execute(example.program, example.tensors, example.variables, example.repeat, observe=observe)
    return results


def first_failure(trial: Trial, expected: Sequence[Calls], way: Way) -> Example | None:
    """The first set of a trial on which a way of executing differs from what `rows_of` expects."""
    program = trial.program
    everything, plain = way(exposed(program)), way(program)
    for group, rows in zip(trial.groups, expected, strict=True):
        for n, tensors in enumerate(group.sets):
            outputs = everything(tensors, group.variables, trial.repeat).outputs
            same = all(row[n].tobytes() == outputs[str(j)].tobytes() for j, row in rows.items())
            if same and n < PLAIN:
                results = plain(tensors, group.variables, trial.repeat)
                same = not any(_of_results(program, {j: row[n] for j, row in rows.items()}, results))
            if not same:
                return Example(program, tensors, dict(group.variables), trial.repeat)
    return None


def rows_of(trial: Trial) -> list[Calls]:
    """What the reference gives in the last iteration, for each group of a trial."""
    calls = len(trial.program.calls)
    by_group: list[Calls] = []
    for group in trial.groups:
        rows: dict[int, NDArray[Any]] = {}

        def observe(number: int, values: NDArray[Any], rows: dict[int, NDArray[Any]] = rows) -> None:
            rows[number % calls] = values

        observe_sets(trial.program, group.sets, group.variables, trial.repeat, observe)
        by_group.append(rows)
    return by_group


def exposed(program: Program) -> Program:
    """The program with the result of every call as an output, named by its number."""
    states = tuple(r for r in program.results if r.kind is Kind.STATE)
    first = len(program.buffers)
    outputs = tuple(
        Result(Kind.OUTPUT, str(j), first + j, (program.parameter(first + j).elements,))
        for j in range(len(program.calls))
    )
    return replace(program, results=(*outputs, *states))


def _of_results(program: Program, expected: Calls, results: Results) -> Iterator[Difference | None]:
    for r in program.results:
        array = (results.outputs if r.kind is Kind.OUTPUT else results.states)[r.name]
        yield _difference(f"{r.kind.name.lower()} {r.name}", None, expected[r.buffer - len(program.buffers)], array)


def _difference(where: str, call: int | None, expected: NDArray[Any], actual: NDArray[Any]) -> Difference | None:
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    a, b = (np.ascontiguousarray(array).reshape(-1).view(bits) for array in (expected, actual))
    if a.shape != b.shape:
        return Difference(where, call, a.size, a.size, 0, f"{a.size} elements", f"{b.size} elements")
    different = np.flatnonzero(a != b)
    if not different.size:
        return None
    i, digits = int(different[0]), 2 * bits.itemsize
    shown = (f"0x{int(array[i]):0{digits}x}" for array in (a, b))
    return Difference(where, call, int(different.size), a.size, i, *shown)
