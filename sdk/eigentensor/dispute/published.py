"""What an executor has published in a game so far, out of the data of its moves."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from eigentensor.abi import decode
from eigentensor.dispute.position import Phase, Position
from eigentensor.tracing import Claimed, Hashes, Opened


@dataclass(frozen=True)
class Published:
    """`nodes` are all that were opened of the trace, from its root downwards; everything else is of the last move of
    its kind."""

    nodes: tuple[Opened, ...] = ()
    outputs: tuple[bytes, ...] = ()
    states: tuple[bytes, ...] = ()
    children: Opened | None = None
    leaf: bytes = b""
    results: bytes = b""
    borders: bytes = b""

    @classmethod
    def of(cls, moves: Iterable[tuple[Position, bytes]]) -> Self:
        """From the data of all moves of a game, in order, each with the position that it led to."""
        published = cls()
        for position, data in moves:
            if data:
                published = published.after(position, data)
        return published

    def after(self, position: Position, data: bytes) -> Self:
        """With the data of an executor's move, which led to a position."""
        if position.phase is Phase.CALL:
            return replace(self, nodes=(*self.nodes, _opened(position, data)))
        if position.phase is Phase.RESULT:
            outputs, states = decode(["bytes32[]", "bytes32[]"], data)
            return replace(self, outputs=outputs, states=states)
        if position.phase is Phase.NODE:
            return replace(self, children=_opened(position, data))
        if position.phase is Phase.ELEMENT:
            leaf, results = decode(["bytes", "bytes"], data)
            return replace(self, leaf=leaf, results=results)
        return replace(self, borders=decode(["bytes"], data)[0])

    def trace(self, own: Hashes) -> Claimed:
        """The trace that the executor claims, as far as it follows from what it opened and from the trace that one has
        oneself; both with the revealed outputs root."""
        return Claimed(own, self.nodes)


def _opened(position: Position, data: bytes) -> Opened:
    (nodes,) = decode(["bytes32[]"], data)
    return Opened(position.level - position.opened, position.opened, position.index, nodes)
