"""States that calls left of late, by their bindings root, and what one file changes of another: the states of a long
text are large, and a call changes little of them. Safe for several threads."""

import struct
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from eigentensor.merkle import Hashed, bindings_root, little_endian, tensor_root_of
from eigentensor.program import Program, Role
from eigentensor.reexecution.inputs import Tensors
from eigentensor.store.tensors import dump_safetensors

ROOM = 256 << 20  #: bytes of states that are kept in memory
CHAIN = 16  #: files that change each the one before, at most
_BLOCK = 1024  # bytes that are compared, and replaced, together
_WORDS = _BLOCK // 8
_COUNT = struct.Struct("<I")


class Patch(NamedTuple):
    """A file as what it changes of the file that has the bindings root `base`; `data` as `difference` has it."""

    base: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class States:
    """States with their bindings root and their file; `depth` patches lie between that and one that is whole. `hashed`
    has what is known of their hashes."""

    root: bytes
    tensors: Tensors
    file: bytes
    depth: int = 0
    hashed: Mapping[str, Hashed] = field(default_factory=dict)

    @classmethod
    def left(cls, program: Program, tensors: Tensors, before: "States | None") -> tuple["States", bytes | Patch]:
        """The new states of a call that went on from others, if these are known, and what is written of them."""
        if not tensors:
            return _NONE
        known, records = before.hashed if before else {}, program.named(Role.STATE)
        hashed = {n: Hashed(little_endian(b.dtype, tensors[n]), known.get(n)) for n, b in records.items()}
        roots = {n: tensor_root_of(b.dtype, b.elements, hashed[n].root()) for n, b in records.items()}
        file = dump_safetensors(tensors, {n: b.dtype for n, b in records.items()})
        patch = before.patch(file) if before else None
        depth = before.depth + 1 if before and patch else 0
        return cls(bindings_root(roots), tensors, file, depth, hashed), patch or file

    def patch(self, file: bytes) -> Patch | None:
        """Another file as what it changes of this one; None where it is better written whole."""
        data = difference(self.file, file) if self.depth + 1 < CHAIN else None
        return None if data is None else Patch(self.root, data)


_NONE = States(bindings_root({}), {}, b""), b""  # of a program without states


class RecentStates:
    """The newest `ROOM` bytes of states."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, States] = OrderedDict()
        self._size = 0

    def get(self, root: bytes) -> States | None:
        """The states that have a root, if they are here."""
        with self._lock:
            if (states := self._kept.get(root)) is not None:
                self._kept.move_to_end(root)
            return states

    def put(self, states: States) -> None:
        """Keeps states; those used last go last."""
        with self._lock:
            if states.root not in self._kept:
                self._size += len(states.file)
            self._kept[states.root] = states
            while self._size > ROOM and self._kept:
                _, gone = self._kept.popitem(last=False)
                self._size -= len(gone.file)

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._kept.clear()
            self._size = 0


def difference(base: bytes, file: bytes) -> bytes | None:
    """What turns one file into another of its length: how many blocks differ, which, then each of them, and the rest
    behind whole blocks. None where that is more than half of the file, or the lengths differ."""
    count = len(file) // _BLOCK
    if len(base) != len(file) or not count:
        return None
    before, after = (np.frombuffer(data, "<u8", count * _WORDS).reshape(count, _WORDS) for data in (base, file))
    blocks = np.flatnonzero((before != after).any(axis=1)).astype("<u4")
    if 2 * len(blocks) > count:
        return None
    return b"".join((_COUNT.pack(len(blocks)), blocks.tobytes(), after[blocks].tobytes(), file[count * _BLOCK :]))


def patched(base: bytes, data: bytes) -> bytes:
    """The file that differs from another one by what `difference` gave."""
    file, (blocks,) = bytearray(base), _COUNT.unpack_from(data)
    numbers = np.frombuffer(data, "<u4", blocks, _COUNT.size)
    at = _COUNT.size + 4 * blocks
    count = len(base) // _BLOCK
    rows = np.frombuffer(file, np.uint8, count * _BLOCK).reshape(count, _BLOCK)
    rows[numbers] = np.frombuffer(data, np.uint8, blocks * _BLOCK, at).reshape(blocks, _BLOCK)
    file[count * _BLOCK :] = data[at + blocks * _BLOCK :]
    return bytes(file)
