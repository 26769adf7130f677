"""Several calls of one program, which differ in inputs and states alone: how many of them one run executes.

A run of several is one of the program widened to so many, and has the bits of each call alone. It pays where calls read
the same weights, or take less time than what surrounds a run; it does not where they leave the caches. So each width is
timed beside a call alone, and used where it is quicker.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from eigentensor.errors import EigenTensorError, RuleError
from eigentensor.program.binding import Results
from eigentensor.program.model import Buffer, Program, Role
from eigentensor.program.widened import widened
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from eigentensor.runtime.sandbox.returned import Wanted
from eigentensor.runtime.sandbox.slots import SLOTS

WIDTHS = (2, 4, 8)  #: calls that one run executes, where it is not one
MESSAGE = 64 << 20  #: bytes of calls that are handed over together, what comes back included
TRIES = 5  #: runs of a width that are timed before it is judged
LONG = 1.0  #: seconds of a run of which one is enough
#: What runs of each width took, as parts of what its calls take one after the other.
Trials = Mapping[int, Sequence[float]]


def open_buffers(program: Program) -> list[Buffer]:
    """The inputs and states of a program, which each call brings, in the order in which a request has them."""
    return [b for b in program.buffers if b.role in (Role.INPUT, Role.STATE)]


def most_together(program: Program) -> int:
    """How many calls are handed over together at most: as many as the largest width has, or MESSAGE has room for."""
    brought = sum(b.elements * b.dtype.size for b in open_buffers(program))
    back = sum(program.parameter(r.buffer).elements * program.parameter(r.buffer).dtype.size for r in program.results)
    return max(1, min(WIDTHS[-1], MESSAGE // max(1, brought + back)))


def admitted(program: Program, memory: int, device: str) -> tuple[int, ...]:
    """The widths, ascending, to which a program can be widened, if a process that has it alone and one that has it in
    all of them are to hold `memory` bytes together. Both read the weights in their file."""
    left, widths = memory - _weights(program) - 2 * _own(program, device), list[int]()
    for width in WIDTHS:
        try:
            left -= _own(widened(program, width), device)
        except RuleError:
            break
        if left < 0 or width > most_together(program):
            break
        widths.append(width)
    return tuple(widths)


def states_size(program: Program) -> int:
    """Bytes of the states of a call."""
    return sum(b.elements * b.dtype.size for b in program.buffers if b.role is Role.STATE)


def held(programs: Sequence[Program], memory: int, device: str) -> int:
    """The states of how many calls a process may hold that has a program alone and in some widths: as many as take half
    of what they leave of `memory` bytes."""
    left = memory - _weights(programs[0]) - sum(_own(program, device) for program in programs)
    return min(SLOTS, max(0, left // 2) // size) if (size := states_size(programs[0])) else 0


def _weights(program: Program) -> int:
    return sum(b.elements * b.dtype.size for b in program.buffers if b.role is Role.WEIGHT)


def _own(program: Program, device: str) -> int:
    """Bytes that it needs besides weights."""
    return max(estimate_memory_requirements(program, device).values()) - _weights(program)


def width_of(count: int, trials: Trials) -> int:
    """How many of so many calls the next run executes: the largest width that is not judged yet, else the one at which
    a call takes least; 1 where that is a call alone."""
    possible = [width for width in trials if width <= count]
    unjudged = [width for width in possible if len(trials[width]) < TRIES]
    if unjudged:
        return max(unjudged)
    parts = {width: sorted(trials[width])[TRIES // 2] for width in possible}
    best = min(possible, key=parts.__getitem__, default=1)
    return best if best > 1 and parts[best] < 1 else 1


class Together:
    """A program on a device with its weights, alone and in some widths. Not safe for several threads."""

    def __init__(self, graphs: Mapping[int, CompiledGraph]) -> None:
        """`graphs` are by width, 1 among them."""
        self.program = graphs[1].program
        self._graphs = dict(graphs)
        self._trials: dict[int, list[float]] = {width: [] for width in graphs if width > 1}

    def run(
        self,
        stacked: Mapping[str, NDArray[Any]],
        variables: Mapping[str, int],
        repeat: int,
        keep: Sequence[Sequence[int]],
    ) -> Iterator[bytes | EigenTensorError | MemoryError]:
        """What each call gives, in order, as `returned` describes it, or how it failed. `stacked` has inputs and states
        of all calls, one after the other along the first axis, `keep` what is wanted of each."""
        begin = 0
        while begin < len(keep):
            width = width_of(len(keep) - begin, self._trials)
            some = {name: array[begin : begin + width] for name, array in stacked.items()}
            wanted = [Wanted(self.program, repeat, tuple(one)) for one in keep[begin : begin + width]]
            try:
                responses = self._run(width, some, variables, wanted)
            except (EigenTensorError, MemoryError) as error:
                if width > 1:  # its calls may do well alone
                    self._drop(width)
                    continue
                yield error
            else:
                yield from responses
            begin += width

    def _run(
        self, width: int, stacked: Mapping[str, NDArray[Any]], variables: Mapping[str, int], wanted: Sequence[Wanted]
    ) -> list[bytes]:
        repeat, files = wanted[0].repeat, [io.BytesIO() for _ in wanted]
        writers = [one.writer(file) for one, file in zip(wanted, files, strict=True)]
        only = frozenset[int]().union(*(writer.keep for writer in writers))

        def observe(number: int, result: NDArray[Any]) -> None:
            elements = self._elements(number)
            for row, writer in enumerate(writers):  # what is no call's own is there once
                writer.observe(number, result if result.size == elements else _row(result, row, elements))

        alone = {name: array[0] for name, array in stacked.items()}
        start = perf_counter()
        results = self._graphs[width].run(
            alone if width == 1 else stacked, variables, repeat, observe=observe if only else None, only=only
        )
        self._judge(width, perf_counter() - start, lambda: self._graphs[1].run(alone, variables, repeat))
        for row, writer in enumerate(writers):
            writer.finish(results if width == 1 else _of_row(results, row))
        return [file.getvalue() for file in files]

    def _judge(self, width: int, seconds: float, alone: Callable[[], Results]) -> None:
        """Times a call alone beside a run of a width that is not judged yet: here, since it takes of the time of these
        calls, which are executed again if that is over, and not of the next one's."""
        if len(self._trials.get(width, range(TRIES))) < TRIES:
            start = perf_counter()
            alone()
            part = seconds / width / max(perf_counter() - start, 1e-9)
            self._trials[width] += [part] * (TRIES if seconds > LONG else 1)

    def _elements(self, number: int) -> int:
        """Of what an executed call of the program writes, alone."""
        return self.program.parameter(len(self.program.buffers) + number % len(self.program.calls)).elements

    def _drop(self, width: int) -> None:
        self._graphs.pop(width, None)
        self._trials.pop(width, None)


def _row(array: NDArray[Any], row: int, elements: int) -> NDArray[Any]:
    return array[row * elements : (row + 1) * elements]


def _of_row(results: Results, row: int) -> Results:
    outputs, states = (
        {name: array[row : row + 1] for name, array in of.items()} for of in (results.outputs, results.states)
    )
    return Results(outputs, states)
