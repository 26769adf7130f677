"""Bodies that no program has: with more said than what a program says, or instructions that only a runtime knows."""

from dataclasses import dataclass

from eigentensor.program.model import Body


@dataclass(frozen=True, slots=True)
class Part(Body):
    """A body that writes a part of its result.

    Output ranges are those of the part; `place` is the index value that says which element of the result it is. It
    grows by a constant along every output axis. No element's value depends on how often, or in which order, elements
    are computed, also where the result lies in the memory of a parameter.
    """

    place: int = 0

    def __hash__(self) -> int:
        return hash((self._hash, self.place))


@dataclass(frozen=True, slots=True)
class Quads(Body):
    """A body in which the values in `wide` stand for four bytes: their own, and those of the next three elements.

    MULACC of two of them and an int32 adds the sum of the four products to that.
    """

    wide: frozenset[int] = frozenset()

    def __hash__(self) -> int:
        return hash((self._hash, self.wide))
