"""A body that writes a part of its result: where each element is stored is one of its values."""

from dataclasses import dataclass

from eigentensor.program.model import Body


@dataclass(frozen=True, slots=True)
class Part(Body):
    """Output ranges are those of the part; `place` is the index value that says which element of the result it is.

    It grows by a constant along every output axis. No element's value depends on how often, or in which order, elements
    are computed, also where the result lies in the memory of a parameter.
    """

    place: int = 0

    def __hash__(self) -> int:
        return hash((self._hash, self.place))
