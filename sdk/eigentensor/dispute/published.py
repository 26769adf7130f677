"""What an executor has published in a game so far, out of the data of its moves."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from eth_abi.abi import decode

from eigentensor.dispute.position import Phase, Position
from eigentensor.tracing import Hashes


@dataclass(frozen=True)
class Published:
    """Everything is of the last move of its kind; the roots of all calls are `calls`."""

    calls: tuple[bytes, ...] = ()
    children: tuple[bytes, ...] = ()
    leaf: bytes = b""
    results: bytes = b""
    borders: bytes = b""

    @classmethod
    def of(cls, moves: Iterable[tuple[Position, bytes]]) -> Self:
        """From the data of all moves of a game, in order, each with the position that it led to."""
        found = cls()
        for position, data in moves:
            if data:
                found = found.after(position.phase, data)
        return found

    def after(self, phase: Phase, data: bytes) -> Self:
        """With the data of an executor's move, which led to a phase."""
        if phase is Phase.CALL:
            return replace(self, calls=tuple(decode(["bytes32", "bytes32", "bytes32[]"], data)[2]))
        if phase is Phase.NODE:
            return replace(self, children=tuple(decode(["bytes32[]"], data)[0]))
        if phase is Phase.ELEMENT:
            leaf, results = decode(["bytes", "bytes"], data)
            return replace(self, leaf=leaf, results=results)
        return replace(self, borders=decode(["bytes"], data)[0])

    def trace(self, outputs: bytes) -> Hashes:
        """The tree over the roots of the calls and the revealed outputs root."""
        return Hashes((*self.calls, outputs))
