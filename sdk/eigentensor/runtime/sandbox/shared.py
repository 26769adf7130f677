"""Memory that a sandboxed process shares with whoever began it, so that tensors need no pipe.

What the process is given lies where it may only read, and stays there from run to run. What it makes it leaves in other
memory, and it is copied from there before anybody looks at it. So a process that does what it likes changes nothing
that it was given, and nothing that was taken from it.
"""

import mmap
import os
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from eigentensor.program.model import Parameter, Program
from eigentensor.runtime.cpu.device import LINE, address, empty
from eigentensor.space import Space
from eigentensor.system import sealed_memory

LEFT = 128 << 20  #: bytes of results that are left at a time
PIPED = 1 << 12  #: bytes of a tensor up to which it goes along with what is said
RETURNED = 16 << 20  #: bytes from which on memory is the system's again as soon as nobody needs it
Bytes = NDArray[np.uint8]


def left_by(program: Program, room: int) -> list[tuple[Parameter, int | None]]:
    """What each result of a program is, and where it is left: one after the other; None for those that go by the pipe,
    since they are small, or there is no room."""
    places, end = list[tuple[Parameter, int | None]](), 0
    for result in program.results:
        of = program.parameter(result.buffer)
        size = of.elements * of.dtype.size
        is_left = PIPED < size <= room - end
        places.append((of, end if is_left else None))
        end += _whole(size) if is_left else 0
    return places


def mapped(given: int, left: int) -> tuple[Bytes, Bytes]:
    """Both memories in the process, from the descriptors that it was begun with, which are closed."""
    memories = mmap.mmap(given, 0, prot=mmap.PROT_READ), mmap.mmap(left, 0)
    os.close(given)
    os.close(left)
    return np.frombuffer(memories[0], np.uint8), np.frombuffer(memories[1], np.uint8)


@dataclass(slots=True)
class _Block:
    """Memory for an array: it is free again when the array is gone."""

    number: int
    start: int
    end: int
    array: "ref[NDArray[Any]]"
    copied: int = 0  #: the identity of an array that it has a copy of
    run: int = 0  #: that used it last


class Shared:
    """Both memories as whoever began the process has them. Not safe for several threads; arrays may go on any.

    `files` are the descriptors that a process is begun with: what it is given, only to read, and what it leaves.
    """

    def __init__(self, given: int) -> None:
        """`given` are the bytes that a process may be given at a time."""
        own, left = sealed_memory("given", given), sealed_memory("left", LEFT)
        self._given, self._left = mmap.mmap(own, given), np.frombuffer(mmap.mmap(left, LEFT), np.uint8)
        self.files = os.open(f"/proc/self/fd/{own}", os.O_RDONLY | os.O_CLOEXEC), left
        os.close(own)
        self._begin = address(np.frombuffer(self._given, np.uint8))
        self._space, self._run = Space(), 0
        self._numbers, self._blocks = count(), dict[int, _Block]()
        self._copies: OrderedDict[int, _Block] = OrderedDict()  #: by what they are copies of, used last at the end
        self._gone: deque[int] = deque()  #: blocks whose arrays are gone; threads add some at any time

    def close(self) -> None:
        """No process is begun with it any more. Arrays keep their memory."""
        for file in self.files:
            os.close(file)

    def places(self, tensors: Sequence[NDArray[Any]], flats: Sequence[NDArray[Any]]) -> list[int | None]:
        """Where the process finds tensors, each of them given flat, too; None for those that go by the pipe: they are
        small, may be written to, or there is no room. Those that may not be written to stay as long as they live."""
        self._run += 1
        self._collect()
        return [self._place(tensor, flat) for tensor, flat in zip(tensors, flats, strict=True)]

    def taken(self, at: int, size: int) -> Bytes:
        """A copy of what the process left, read-only, and where the process may be given it if there is room."""
        self._run += 1
        self._collect()
        start = self._room(size)
        copy = empty(np.uint8, size) if start is None else self._array(start, size)
        copy[:] = self._left[at : at + size]
        if start is not None:
            self._keep(start, size, copy)
        copy.flags.writeable = False
        return copy

    def _place(self, tensor: NDArray[Any], flat: NDArray[Any]) -> int | None:
        if flat.nbytes <= PIPED:
            return None
        at = address(flat) - self._begin
        if 0 <= at < len(self._given):
            return at
        if (block := self._copies.get(id(tensor))) is None:
            if tensor.flags.writeable or (start := self._room(flat.nbytes)) is None:
                return None
            self._array(start, flat.nbytes)[:] = flat.view(np.uint8)
            block = self._copies[id(tensor)] = self._keep(start, flat.nbytes, tensor)
            block.copied = id(tensor)
        self._copies.move_to_end(id(tensor))
        block.run = self._run
        return block.start

    def _array(self, start: int, size: int) -> Bytes:
        """Its views keep it: of a view of a whole array, NumPy would keep the whole."""
        return np.frombuffer(self._given, np.uint8, size, start)

    def _keep(self, start: int, size: int, array: NDArray[Any]) -> _Block:
        number, gone = next(self._numbers), self._gone
        held = ref(array, lambda _: gone.append(number))
        block = self._blocks[number] = _Block(number, start, start + _whole(size), held)
        return block

    def _room(self, size: int) -> int | None:
        """Where there is room, without copies that no process needs now; None: there is none."""
        need = _whole(size)
        while not self._space.has(need, len(self._given)):
            oldest = next(iter(self._copies.values()), None)
            if oldest is None or oldest.run == self._run:
                return None
            self._free(oldest.number)
        return self._space.take(need)

    def _collect(self) -> None:
        """Frees the memory of arrays that are gone."""
        for _ in range(len(self._gone)):
            self._free(self._gone.popleft())

    def _free(self, number: int) -> None:
        if (block := self._blocks.pop(number, None)) is None:
            return  # it was given up for others
        if block.copied:
            del self._copies[block.copied]
        self._space.release(block.start, block.end)
        if block.end - block.start >= RETURNED:
            page = mmap.PAGESIZE
            first, last = -(-block.start // page) * page, block.end // page * page
            self._given.madvise(mmap.MADV_REMOVE, first, last - first)


def _whole(size: int) -> int:
    """Bytes, up to the next line of the cache."""
    return -(-size // LINE) * LINE
