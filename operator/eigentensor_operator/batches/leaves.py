"""Inputs and states of a call that its operator serves to nobody: which leaves of them are demanded on chain, and the
tensors out of what was shown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.errors import BindingError, BlobTooLarge
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Program, Role
from eigentensor.program.model import Buffer
from eigentensor.store.tensors import dump_safetensors
from eigentensor.task import Leaf

#: The most leaves of one call that are demanded: 16 KiB. Each is prepaid as the call itself is.
MOST = 16
ROLES = (Role.INPUT, Role.STATE)  #: of what the contracts show leaves


@dataclass(frozen=True, slots=True)
class Missing:
    """What a call binds to the inputs, to the states or to both of its program, and nobody serves: roots by role."""

    program: Program
    roots: Mapping[Role, bytes]

    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves of it, in the order of their tensors' names. Raises BlobTooLarge for more than are demanded."""
        leaves = tuple(
            Leaf(role is Role.STATE, tensor, index)
            for role in ROLES
            if role in self.roots
            for tensor, (_, buffer) in enumerate(self._tensors(role))
            for index in range(_leaves_of(buffer))
        )
        if len(leaves) > MOST:
            raise BlobTooLarge(
                f"what the call binds has {len(leaves)} leaves, of which {MOST} are demanded at most",
                fix="Its share stays unchecked: its client may upload what it binds.",
            )
        return leaves

    def files(self, shown: Sequence[bytes]) -> dict[Role, bytes]:
        """A safetensors file for each role, out of the bytes of `leaves`. Raises BindingError where these are not what
        the order binds."""
        rest, files = iter(shown), {}
        for role in ROLES:
            if role in self.roots:
                tensors = {name: _array(buffer, rest) for name, buffer in self._tensors(role)}
                if merkle.role_root(self.program, role, tensors) != self.roots[role]:
                    raise BindingError(f"the shown leaves are no {role.name.lower()} tensors of the program")
                files[role] = dump_safetensors(tensors, {name: b.dtype for name, b in self._tensors(role)})
        return files

    def _tensors(self, role: Role) -> list[tuple[str, Buffer]]:
        return sorted(self.program.named(role).items())


def _leaves_of(buffer: Buffer) -> int:
    return -(-buffer.elements * buffer.dtype.size // merkle.LEAF)


def _array(buffer: Buffer, leaves: Iterator[bytes]) -> np.ndarray[Any, Any]:
    """The next tensor out of leaves, of which the last one is filled with zeros."""
    data = b"".join(islice(leaves, _leaves_of(buffer)))[: buffer.elements * buffer.dtype.size]
    if len(data) != buffer.elements * buffer.dtype.size:
        raise BindingError(f"the order binds no {buffer.dtype.name.lower()} tensor of {buffer.elements} elements")
    storage = STORAGE[buffer.dtype]
    return np.frombuffer(data, storage.newbyteorder("<")).astype(storage).reshape(buffer.shape)
