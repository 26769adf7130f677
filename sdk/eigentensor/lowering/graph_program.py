"""What a front end makes: a program with names, and the data that its author already has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from eigentensor.errors import CaptureError, RuleError
from eigentensor.merkle import program_root
from eigentensor.program.codec import decode, encode
from eigentensor.program.model import Program
from eigentensor.program.validity import check

CONSTANT_BYTES = 1024  #: data without a name of at most this size stand in the program, larger ones are weights
Values = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class GraphProgram:
    """A program with the data that its author already has: weights, and the first values of its states.

    `cast` says what was float64 and is float32, where its author asked for that.
    """

    program: Program
    weights: Mapping[str, Values] = field(default_factory=dict)
    states: Mapping[str, Values] = field(default_factory=dict)
    cast: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<GraphProgram {self.uuid[:10]}: {repr(self.program)[9:-1]}>"

    @property
    def uuid(self) -> str:
        """The program root, in hex."""
        return program_root(self.to_bytes()).hex()

    def to_bytes(self) -> bytes:
        """The program as sdk/README.md defines it: without weights."""
        return encode(self.program)

    def repeatable(self, max_repeat: int) -> "GraphProgram":
        """The same, with this largest repeat. Raises CaptureError for one that the format does not admit."""
        program = replace(self.program, max_repeat=max_repeat)
        try:
            check(program)
        except RuleError as error:
            raise CaptureError(f"no valid program: {error.what}", fix=error.fix, topic=error.topic) from error
        return replace(self, program=program)

    @classmethod
    def from_bytes(cls, data: bytes, weights: Mapping[str, Values] | None = None) -> "GraphProgram":
        """Raises FormatError or RuleError for bytes that are not a valid program."""
        return cls(decode(data), weights or {})
