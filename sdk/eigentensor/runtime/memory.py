"""Where the results of calls lie: in one piece of memory, over those that nobody reads any more."""

from bisect import insort
from dataclasses import dataclass

from eigentensor.program.model import Program

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """Byte offset of each call's result, and the bytes of all."""

    offsets: tuple[int, ...]
    size: int


def plan(program: Program) -> Plan:
    """Results share bytes if one is read for the last time before the other is written. Those of the program stay."""
    first = len(program.buffers)
    last_use = {argument: j for j, call in enumerate(program.calls) for argument in call.arguments}
    kept = {r.buffer for r in program.results}
    ending: dict[int, list[int]] = {}
    for buffer, j in last_use.items():
        if buffer >= first and buffer not in kept:
            ending.setdefault(j, []).append(buffer)
    free: list[tuple[int, int]] = []  # (start, end), by start, never touching
    offsets: list[int] = []
    size = 0
    for j in range(len(program.calls)):
        need = _bytes(program, first + j)
        hole = min((h for h in free if h[1] - h[0] >= need), key=lambda h: h[1] - h[0], default=None)
        if hole is None:
            if free and free[-1][1] == size:
                size = free.pop()[0]
            offsets.append(size)
            size += need
        else:
            free.remove(hole)
            offsets.append(hole[0])
            if hole[1] - hole[0] > need:
                insort(free, (hole[0] + need, hole[1]))
        for buffer in ending.get(j, ()):
            start = offsets[buffer - first]
            _release(free, start, start + _bytes(program, buffer))
    return Plan(tuple(offsets), size)


def needed(program: Program) -> int:
    """Bytes of everything that a run holds: tensors, constants, the results of calls, and copies of what goes out."""
    outside = [(b.dtype, b.elements) for b in program.buffers] + [program.parameter(r.buffer) for r in program.results]
    return plan(program).size + sum(dtype.size * elements for dtype, elements in outside)


def _bytes(program: Program, buffer: int) -> int:
    dtype, elements = program.parameter(buffer)
    return -(-max(1, elements * dtype.size) // ALIGNMENT) * ALIGNMENT


def _release(free: list[tuple[int, int]], start: int, end: int) -> None:
    for hole in [h for h in free if h[1] == start or h[0] == end]:
        free.remove(hole)
        start, end = min(start, hole[0]), max(end, hole[1])
    insort(free, (start, end))
