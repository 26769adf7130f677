"""Where the results of calls lie: in one piece of memory, over those that nobody reads any more."""

import os
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

from eigentensor.errors import LimitError
from eigentensor.program.model import Parameter, Program, Role
from eigentensor.runtime.in_place import in_place

ALIGNMENT = 64
HOST = "CPU"


@dataclass(frozen=True, slots=True)
class Plan:
    """Byte offset of each call's result, and the bytes of all. What has memory of its own is at 0."""

    offsets: tuple[int, ...]
    size: int


def plan(program: Program, alignment: int = ALIGNMENT, *, over: bool = False) -> Plan:
    """Results share bytes if one is read for the last time before the other is written. Those of the program stay.

    With `over`, a call also writes over what it reads for the last time, where its body allows that, and results of the
    program have memory of their own.
    """
    first = len(program.buffers)
    bodies = [in_place(body) if over else frozenset[int]() for body in program.bodies]
    last_use = {argument: j for j, call in enumerate(program.calls) for argument in call.arguments}
    kept = {r.buffer for r in program.results}
    ending: dict[int, list[int]] = {}
    for buffer, j in last_use.items():
        if buffer >= first and buffer not in kept:
            ending.setdefault(j, []).append(buffer)
    space, offsets = _Space(), list[int]()
    for j, call in enumerate(program.calls):
        dead = ending.get(j, [])
        fixed = {b for n, b in enumerate(call.arguments, 1) if n not in bodies[call.body]}
        under = next((b for b in dead if b not in fixed), None)
        if over and first + j in kept:
            offsets.append(0)
            under = None
        elif under is None:
            offsets.append(space.take(_bytes(program, first + j, alignment)))
        else:
            offsets.append(offsets[under - first])
        for buffer in dead:
            if buffer != under:
                start = offsets[buffer - first]
                space.release(start, start + _bytes(program, buffer, alignment))
    return Plan(tuple(offsets), space.size)


class _Space:
    """Bytes from 0 on, of which some are free: (start, end), by start, never touching."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.size = 0

    def take(self, need: int) -> int:
        """Where so many bytes were free: in the smallest hole, or at the end."""
        hole = min((h for h in self.free if h[1] - h[0] >= need), key=lambda h: h[1] - h[0], default=None)
        if hole is None:
            start = self.free.pop()[0] if self.free and self.free[-1][1] == self.size else self.size
            self.size = start + need
            return start
        self.free.remove(hole)
        if hole[1] - hole[0] > need:
            insort(self.free, (hole[0] + need, hole[1]))
        return hole[0]

    def release(self, start: int, end: int) -> None:
        for hole in [h for h in self.free if h[1] == start or h[0] == end]:
            self.free.remove(hole)
            start, end = min(start, hole[0]), max(end, hole[1])
        insort(self.free, (start, end))


def estimate_memory_requirements(program: Program, device: str = "CPU", repeat: int | None = None) -> dict[str, int]:
    """Bytes that a run of a valid program holds at most, by device: before anything is compiled or allocated.

    Counted are all tensors: those that are given, constants, results of calls, the states that are fed back, and copies
    of what goes out. A device that has memory of its own holds what it computes with; the host, `CPU`, what goes in and
    out. `repeat` is how often the program runs, by default as often as it allows. Kernels are not counted, nor some
    hundred bytes for each call.
    """

    def size(parts: Iterable[Parameter]) -> int:
        return sum(dtype.size * elements for dtype, elements in parts)

    tensors = size(Parameter(b.dtype, b.elements) for b in program.buffers)
    states = size(Parameter(b.dtype, b.elements) for b in program.named(Role.STATE).values())
    results = size(program.parameter(r.buffer) for r in program.results)
    if device.partition(":")[0] == HOST:
        fed_back = states if (repeat or program.max_repeat) > 1 else 0  # what is given is not written
        return {device: tensors + plan(program, over=True).size + fed_back + results}
    return {device: tensors + plan(program, over=False).size, HOST: tensors + results}


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
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _bytes(program: Program, buffer: int, alignment: int) -> int:
    dtype, elements = program.parameter(buffer)
    return -(-max(1, elements * dtype.size) // alignment) * alignment
