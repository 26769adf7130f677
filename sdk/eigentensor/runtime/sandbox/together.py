"""Several calls of one program, each with inputs, states and variables of its own: how many of them one run executes.

A run of several is one of the program so many `abreast`, and has the bits of each call alone. It pays where calls read
the same weights, or take less time than what surrounds a run; it does not where they leave the caches. So each width is
timed beside a call alone, and used where it is quicker.
"""

import io
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from numpy.typing import NDArray

from eigentensor.errors import EigenTensorError, RuleError
from eigentensor.program.abreast import Abreast, abreast
from eigentensor.program.binding import Results
from eigentensor.program.model import Buffer, Program, Role
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from eigentensor.runtime.sandbox.returned import Wanted
from eigentensor.runtime.sandbox.slots import SLOTS

WIDTHS = (2, 4, 8, 16)  #: calls that one run executes, where it is not one
MESSAGE = 64 << 20  #: bytes of calls that are handed over together, what comes back included,
PART = 8  #: or this part of the memory that a process may have, if that is more
TRIES = 5  #: runs of a width that are timed before it is judged
LONG = 1.0  #: seconds of a run of which one is enough
#: What runs of each width took, as parts of what its calls take one after the other.
Trials = Mapping[int, Sequence[float]]


def open_buffers(program: Program) -> list[Buffer]:
    """The inputs and states of a program, which each call brings, in the order in which a request has them."""
    return [b for b in program.buffers if b.role in (Role.INPUT, Role.STATE)]


def most_together(program: Program, memory: int) -> int:
    """How many calls are handed over together at most to a process that may have `memory` bytes: as many as the largest
    width has, or there is room for."""
    return max(1, min(WIDTHS[-1], max(MESSAGE, memory // PART) // max(1, _exchanged(program))))


def _exchanged(program: Program) -> int:
    """Bytes that a call brings, and that come back."""
    brought = sum(b.elements * b.dtype.size for b in open_buffers(program))
    results = (program.parameter(r.buffer) for r in program.results)
    return brought + sum(elements * dtype.size for dtype, elements in results)


def admitted(program: Program, memory: int, device: str) -> tuple[int, ...]:
    """The widths, ascending, in which a program can be executed, if a process that has it alone and one that has it in
    all of them, and so many calls, are to hold `memory` bytes together. Both read the weights in their file."""
    left, widths = memory - _weights(program) - 2 * _own(program, device), list[int]()
    for width in WIDTHS:
        try:
            left -= _own(abreast(program, width).program, device)
        except RuleError:
            break
        if left < width * _exchanged(program) or width > most_together(program, memory):
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


class Asked(NamedTuple):
    """A call: the states that it goes on from, its variables, and the executed calls whose results are kept."""

    states: Mapping[str, NDArray[Any]]
    variables: Mapping[str, int]
    keep: Sequence[int]


class Together:
    """A program on a device with its weights, alone and in some widths. Not safe for several threads."""

    def __init__(self, graphs: Sequence[tuple[Abreast, CompiledGraph]]) -> None:
        """`graphs` are of one execution, which comes first, and of several side by side."""
        self.program = graphs[0][0].program
        self._graphs = {wide.count: (wide, graph) for wide, graph in graphs}
        self._trials: dict[int, list[float]] = {width: [] for width in self._graphs if width > 1}

    def run(
        self, inputs: Mapping[str, NDArray[Any]], calls: Sequence[Asked], repeat: int
    ) -> Iterator[bytes | EigenTensorError | MemoryError]:
        """What each call gives, in order, as `returned` describes it, or how it failed. `inputs` has those of all
        calls, one after the other along the first axis."""
        begin = 0
        while begin < len(calls):
            width = width_of(len(calls) - begin, self._trials)
            some = {name: array[begin : begin + width] for name, array in inputs.items()}
            try:
                responses = self._run(some, calls[begin : begin + width], repeat)
            except (EigenTensorError, MemoryError) as error:
                if width > 1:  # its calls may do well alone
                    self._drop(width)
                    continue
                yield error
            else:
                yield from responses
            begin += width

    def _run(self, inputs: Mapping[str, NDArray[Any]], calls: Sequence[Asked], repeat: int) -> list[bytes]:
        wide, files = self._graphs[len(calls)][0], [io.BytesIO() for _ in calls]
        writers = [
            Wanted(self.program, repeat, tuple(call.keep)).writer(file) for call, file in zip(calls, files, strict=True)
        ]
        kept = defaultdict[int, list[tuple[int, int]]](list)  # of an executed call: for which rows, as which of theirs
        for row, writer in enumerate(writers):
            for number in writer.keep:
                kept[self._place(wide, number, row)].append((row, number))

        def observe(place: int, result: NDArray[Any]) -> None:
            for row, number in kept[place]:
                elements = self._elements(number)  # what is no call's own is there once
                writers[row].observe(number, result if result.size == elements else _part(result, row, elements))

        start = perf_counter()
        results = self._executed(inputs, calls, repeat, observe if kept else None, frozenset(kept))
        self._judge(len(calls), perf_counter() - start, lambda: self._executed(inputs, calls[:1], repeat))
        for row, writer in enumerate(writers):
            writer.finish(wide.results(results, row))
        return [file.getvalue() for file in files]

    def _executed(
        self,
        inputs: Mapping[str, NDArray[Any]],
        calls: Sequence[Asked],
        repeat: int,
        observe: Callable[[int, NDArray[Any]], None] | None = None,
        only: Collection[int] = (),
    ) -> Results:
        """A run of these calls, the first of `inputs`."""
        wide, graph = self._graphs[len(calls)]
        tensors = {**wide.inputs(inputs), **wide.states([call.states for call in calls])}
        variables = wide.variables([call.variables for call in calls])
        return graph.run(tensors, variables, repeat, observe=observe, only=only)

    def _judge(self, width: int, seconds: float, alone: Callable[[], Results]) -> None:
        """Times a call alone beside a run of a width that is not judged yet: here, since it takes of the time of these
        calls, which are executed again if that is over, and not of the next one's."""
        if len(self._trials.get(width, range(TRIES))) < TRIES:
            start = perf_counter()
            alone()
            part = seconds / width / max(perf_counter() - start, 1e-9)
            self._trials[width] += [part] * (TRIES if seconds > LONG else 1)

    def _place(self, of: Abreast, number: int, row: int) -> int:
        """The executed call that has the result of one of the program, for a row."""
        iteration, call = divmod(number, len(self.program.calls))
        return iteration * len(of.program.calls) + of.places[call][row]

    def _elements(self, number: int) -> int:
        """Of what an executed call of the program writes, alone."""
        return self.program.parameter(len(self.program.buffers) + number % len(self.program.calls)).elements

    def _drop(self, width: int) -> None:
        self._graphs.pop(width, None)
        self._trials.pop(width, None)


def _part(array: NDArray[Any], row: int, elements: int) -> NDArray[Any]:
    return array[row * elements : (row + 1) * elements]
