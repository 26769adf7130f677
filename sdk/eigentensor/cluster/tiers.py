"""What executes a program when, so that its first result comes soon and its hundredth fast. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body, Program


class Tier(Enum):
    """`SOONEST`: the reference, and code of heavy bodies alone. `BOTH` is that, while all is compiled beside it."""

    SOONEST = "soonest"
    BOTH = "both"
    COMPILED = "compiled"


@dataclass(frozen=True, slots=True)
class Tiers:
    """A program is compiled at its `sight`-th run. Until then the reference computes those of its bodies whose calls
    together have at most `most` evaluations: the others, which are heavy, take longer by it than clang does."""

    most: int = 16_000_000
    sight: int = 3

    def of(self, bodies: int, heavy: int, sight: int, *, at_once: bool) -> Tier:
        """The tier of a run, the first of which is sight 1, of a program with so many bodies and heavy ones; with
        `at_once` it is to be compiled anyway."""
        if at_once or 0 < bodies == heavy:
            return Tier.COMPILED
        return Tier.BOTH if sight >= self.sight else Tier.SOONEST

    def heavy(self, evaluations: Mapping[Body, int]) -> frozenset[Body]:
        """The heavy bodies among these."""
        return frozenset(body for body, number in evaluations.items() if number > self.most)


def evaluations(program: Program) -> dict[Body, int]:
    """How many instructions the calls of each body evaluate together."""
    each = dict.fromkeys(program.bodies, 0)
    for call in program.calls:
        body = program.bodies[call.body]
        each[body] += body_cost(body).evaluations
    return each
