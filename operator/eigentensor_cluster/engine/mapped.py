"""Boxes in memory that two processes of one host have mapped: written once by one, read where they lie by the other.

    memory = NONCE random bytes; from PAGE on, blocks
    block  = one byte, which is 1 while somebody has the box; from ALIGN on, the elements in order

It is a file without a name, so it is gone when both processes are. Who sends makes it, and alone decides what lies
where; who receives gives a block back by its first byte. Nobody waits for anybody: what finds no room goes another way.
"""

import mmap
import os
import secrets
import threading
import weakref
from bisect import insort
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cluster.frames import IDENTITY
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.system import is_sealed, sealed_memory
from eigentensor.talk import say

NONCE, ALIGN, PAGE = IDENTITY, 64, mmap.PAGESIZE  #: bytes
GROWTH = 1 << 16  #: bytes by which memory grows at least
MOST = 1 << 30  #: bytes of one; most of it has no memory behind it


class Room:
    """Bytes that all that this process makes may take. Safe for several threads."""

    def __init__(self) -> None:
        self._lock, self._limit, self._taken = threading.Lock(), 0, 0
        self._has_said = False

    @property
    def is_over(self) -> bool:
        """Whether more is taken than may be now."""
        return self._taken > self._limit

    def widen(self, count: int) -> None:
        """So many bytes more may be taken from now on; or fewer."""
        with self._lock:
            self._limit += count

    def take(self, count: int) -> bool:
        """Takes so many, if they may be taken."""
        with self._lock:
            if self._taken + count > self._limit:
                return False
            self._taken += count
            return True

    def give(self, count: int) -> None:
        """Gives back what was taken."""
        with self._lock:
            self._taken -= count

    def lacks(self, error: Exception) -> None:
        """Says, once, why boxes go by sockets though they need not."""
        if not self._has_said:
            self._has_said = True
            say(f"boxes go to other workers of this machine by sockets, which takes longer: {error}")


class Outbox:
    """Memory that another process maps, and the boxes for it there. Safe for several threads."""

    def __init__(self, room: Room) -> None:
        """Raises OSError where the system gives none."""
        self.nonce, self._room, self._lock = secrets.token_bytes(NONCE), room, threading.Lock()
        self.descriptor = sealed_memory("boxes", MOST)
        try:
            self._map = mmap.mmap(self.descriptor, MOST)
            self._map[:NONCE] = self.nonce
        except BaseException:
            os.close(self.descriptor)
            raise
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._end, self._is_closed = PAGE, False  # behind it there is no memory
        self._blocks = list[tuple[int, int]]()  # that were taken, in order: where each begins and ends

    def lay(self, box: NDArray[Any]) -> int | None:
        """Where the elements of a box lie now, in order; None if there is no room for them."""
        if self._room.is_over:
            self.trim()
        with self._lock:
            at = self._place(ALIGN + -(-box.nbytes // ALIGN) * ALIGN)
            if at is None:
                return None
            self._map[at] = 1
        begin = at + ALIGN
        np.copyto(self._bytes[begin : begin + box.nbytes].view(box.dtype).reshape(box.shape), box)
        return begin

    def trim(self) -> None:
        """Gives back the memory behind the last box."""
        with self._lock:
            self._sweep()
            end = -(-max([PAGE, *(end for _, end in self._blocks)]) // PAGE) * PAGE
            if end < self._end and not self._is_closed:
                self._map.madvise(mmap.MADV_REMOVE, end, self._end - end)
                self._room.give(self._end - end)
                self._end = end

    def close(self) -> None:
        """Forgets it; it is gone when the other process has read what lies there."""
        with self._lock:
            self._is_closed = True
            os.close(self.descriptor)
            self._room.give(self._end - PAGE)

    def _place(self, size: int) -> int | None:
        """Where a block begins from now on: as near to the beginning as it can, which was read last."""
        self._sweep()
        begins, ends = [begin for begin, _ in self._blocks], [end for _, end in self._blocks]
        gaps = zip([PAGE, *ends], [*begins, MOST], strict=True)
        at = next((gap for gap, end in gaps if end - gap >= size), MOST)
        if at + size > self._end and not self._grow(at + size):
            return None
        insort(self._blocks, (at, at + size))
        return at

    def _sweep(self) -> None:
        self._blocks = [block for block in self._blocks if self._map[block[0]]]

    def _grow(self, end: int) -> bool:
        """Has memory up to an end, if there is some."""
        count = -(-(end - self._end) // GROWTH) * GROWTH
        if self._is_closed or self._end + count > MOST or not self._room.take(count):
            return False
        try:
            os.posix_fallocate(self.descriptor, self._end, count)
        except OSError as error:
            self._room.give(count)
            self._room.lacks(error)
            return False
        self._end += count
        return True


class Inbox:
    """Another process's memory."""

    def __init__(self, descriptor: int) -> None:
        """Maps it, and closes the descriptor. Raises OSError for what is no such memory, or cannot be mapped."""
        try:
            size = os.fstat(descriptor).st_size
            if not is_sealed(descriptor) or not PAGE <= size <= MOST:
                raise OSError("this is no memory for boxes")
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self.nonce = self._map[:NONCE]

    def box(self, dtype: DType, elements: int, at: int) -> NDArray[Any]:
        """The elements of a box where they lie, which is given back when nobody refers to the array any more. Raises
        ValueError for what cannot lie there."""
        size = elements * dtype.size
        if at % ALIGN or not PAGE < at <= len(self._map) - size:
            raise ValueError(f"no box of {size:,} bytes lies at {at:,}")
        array: NDArray[Any] = np.frombuffer(self._map, STORAGE[dtype], elements, at)
        array.flags.writeable = False
        weakref.finalize(array, self._map.__setitem__, at - ALIGN, 0).atexit = False
        if dtype is DType.BOOL and (array.view(np.uint8) > 1).any():
            raise ValueError("a box is of bools and holds other bytes")
        return array
