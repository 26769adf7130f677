"""Where the results of calls lie: in one piece of memory, over those that nobody reads any more."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eigentensor.errors import LimitError
from eigentensor.program.model import Body, Parameter, Program, Role
from eigentensor.runtime.bodies.part import Part
from eigentensor.runtime.memory.append import append
from eigentensor.runtime.memory.in_place import in_place
from eigentensor.space import Space
from eigentensor.system import memory

ALIGNMENT = 64
HOST = "CPU"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where each call's result lies: at a byte offset of one piece of memory of some size, or in memory of its own.

    Results of the program have memory of their own, also of what is written over to become them: `own` is the buffer of
    that result, or None, by call; what has such memory is at 0. `appends` are the calls of which only a part is run,
    over what they append to, and `later` those for which this is the state that an iteration before has written.
    `carried` are results that the next iteration writes over, who reads them as states; `swapped` those of which it
    reads one memory and writes another.
    """

    offsets: tuple[int, ...]
    size: int
    own: tuple[int | None, ...]
    appends: Mapping[int, Part]
    later: Mapping[int, Part]
    carried: frozenset[int]
    swapped: frozenset[int]

    def body(self, program: Program, call: int, turn: int) -> Body:
        """What a call runs in a turn."""
        part = self.appends.get(call) or (self.later.get(call) if turn else None)
        return part or program.bodies[program.calls[call].body]


def plan(program: Program, alignment: int = ALIGNMENT, *, over: bool = False) -> MemoryPlan:
    """Results share bytes if one is read for the last time before the other is written.

    An append is written over what it appends to, if nobody reads that later. With `over`, any call writes over what it
    reads for the last time, where its body allows that.
    """
    first, uses = len(program.buffers), _Uses(program, over)
    under = {j: buffer for j in range(len(program.calls)) if (buffer := uses.under(j)) is not None}
    own: list[int | None] = [None] * len(program.calls)
    # From the last: what is written over to become a result lies where that result does.
    for j in reversed(range(len(program.calls))):
        if first + j in uses.kept:
            own[j] = first + j
        if j in under:
            own[under[j] - first] = own[j]
    space, offsets = Space(), list[int]()
    for j in range(len(program.calls)):
        if own[j] is not None:
            offsets.append(0)
        elif j in under:
            offsets.append(offsets[under[j] - first])
        else:
            offsets.append(space.take(_bytes(program, first + j, alignment)))
        for buffer in uses.ending.get(j, []):
            if buffer != under.get(j) and own[buffer - first] is None:
                start = offsets[buffer - first]
                space.release(start, start + _bytes(program, buffer, alignment))
    appends = {j: part for j, b in under.items() if (part := uses.part(j, b))}
    fed = {s: program.new_states[b.name].buffer for s, b in enumerate(program.buffers) if b.role is Role.STATE}
    begun = {r: own.index(r) for r in fed.values()}
    swapped = {r for s, r in fed.items() if not uses.may_lie_under(begun[r], s)}
    carried = set(fed.values()) - swapped
    later = {begun[r]: part for s, r in fed.items() if r in carried and (part := uses.part(begun[r], s))}
    return MemoryPlan(tuple(offsets), space.size, tuple(own), appends, later, frozenset(carried), frozenset(swapped))


class _Uses:
    """Who reads what, and who may write over it."""

    def __init__(self, program: Program, over: bool) -> None:
        self.program = program
        self.over = [in_place(body) if over else frozenset[int]() for body in program.bodies]
        self.kept = frozenset(r.buffer for r in program.results)
        self.last = {argument: j for j, call in enumerate(program.calls) for argument in call.arguments}
        #: What each call reads that is not read later: results of calls, not of the program.
        self.ending: dict[int, list[int]] = {}
        for buffer, j in self.last.items():
            if buffer >= len(program.buffers) and buffer not in self.kept:
                self.ending.setdefault(j, []).append(buffer)

    def under(self, call: int) -> int | None:
        """What a call is written over: what it appends to, or else the first that it may."""
        possible = [buffer for buffer in self.ending.get(call, []) if self.may_lie_under(call, buffer)]
        return max(possible, key=lambda buffer: self.part(call, buffer) is not None, default=None)

    def may_lie_under(self, call: int, buffer: int) -> bool:
        """Whether nobody would see that a call is written over a buffer."""
        last = self.last.get(buffer, -1)
        return last < call or (last == call and (self.part(call, buffer) is not None or self._is_over(call, buffer)))

    def part(self, call: int, buffer: int) -> Part | None:
        """The part of a call that is run if it appends to a buffer."""
        body, arguments, _ = self.program.calls[call]
        candidate = append(self.program.bodies[body])
        alone = candidate is not None and arguments.count(buffer) == 1 and arguments[candidate.parameter - 1] == buffer
        return candidate.part if candidate is not None and alone else None

    def _is_over(self, call: int, buffer: int) -> bool:
        body, arguments, _ = self.program.calls[call]
        return all(n in self.over[body] for n, argument in enumerate(arguments, 1) if argument == buffer)


def memories(program: Program, plan: MemoryPlan, turn: int) -> list[int]:
    """The memory of each buffer in an iteration, by number: its own, or that of a result of the program.

    `turn` is 0 for the first iteration, which reads states as they are given, then 1 and 2 by turns: in odd ones, what
    is swapped is written to a second memory, whose number is that of the result after those of all buffers.
    """
    first, count = len(program.buffers), len(program.buffers) + len(program.calls)
    second = {r: count + r for r in plan.swapped}
    numbers = [*range(first), *(first + j if r is None else r for j, r in enumerate(plan.own))]
    if turn == 1:
        numbers[first:] = [second.get(r, r) for r in numbers[first:]]
    if turn:
        for number, buffer in enumerate(program.buffers):
            if buffer.role is Role.STATE:
                result = program.new_states[buffer.name].buffer
                numbers[number] = second.get(result, result) if turn == 2 else result
    return numbers


def next_turn(plan: MemoryPlan, turn: int) -> int:
    """The turn of the next iteration: 0 where no state moves, else 1, or 1 and 2 alternating where memories are
    swapped."""
    if not (plan.carried or plan.swapped):
        return 0
    return 2 if turn == 1 and plan.swapped else 1


def parts(program: Program) -> tuple[Part, ...]:
    """The parts of bodies that a program's calls may be run as, on any device."""
    plans = [plan(program, over=over) for over in (True, False)]
    return tuple(dict.fromkeys(part for p in plans for part in (*p.appends.values(), *p.later.values())))


def estimate_memory_requirements(program: Program, device: str = "CPU", repeat: int | None = None) -> dict[str, int]:
    """Bytes that a run of a valid program holds at most, by device: before anything is compiled or allocated.

    Counted are all tensors: those that are given, constants, results of calls, second memories of states that cannot be
    written over, and copies of what goes out. A device that has memory of its own holds what it computes with; the
    host, `CPU`, what goes in and out. `repeat` is how often the program runs, by default as often as it allows. Kernels
    are not counted, nor some hundred bytes for each call.
    """

    def size(parts: Iterable[Parameter]) -> int:
        return sum(dtype.size * elements for dtype, elements in parts)

    tensors = size(Parameter(b.dtype, b.elements) for b in program.buffers)
    results = size(program.parameter(r.buffer) for r in program.results)
    if device.partition(":")[0] == HOST:
        planned = plan(program, over=True)
        second = size(map(program.parameter, planned.swapped)) if (repeat or program.max_repeat) > 1 else 0
        return {device: tensors + planned.size + second + results}
    own = size(program.parameter(buffer) for buffer in {r.buffer for r in program.results})
    return {device: tensors + plan(program).size + own, HOST: tensors + results}


def refuse_over(limit: int | None, program: Program, device: str = HOST, repeat: int | None = None) -> None:
    """Raises LimitError if a run holds more than `limit` bytes on a device; by default, more than this host has."""
    for name, size in estimate_memory_requirements(program, device, repeat).items():
        most = limit if limit is not None else installed() if name == HOST else size
        if size > most:
            raise LimitError(
                f"the program needs {size:,} bytes of memory on {name}, there are {most:,}",
                fix="Allow more, run it where there is more, or capture it with a smaller batch.",
            )


def installed() -> int:
    """Bytes of memory that this host has."""
    return memory()


def _bytes(program: Program, buffer: int, alignment: int) -> int:
    dtype, elements = program.parameter(buffer)
    return -(-max(1, elements * dtype.size) // alignment) * alignment
