"""Where two results of one program differ first. Pure."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from eigentensor.chain.transcript import typed
from eigentensor.program import Program, Result
from eigentensor.program.binding import Results

if TYPE_CHECKING:
    from eigentensor_client.schemas import results as schemas


@dataclass(frozen=True, slots=True)
class Difference:
    """An element of a result, as it is `claimed` and as it was `computed`, with its bits.

    `call` is the number of the executed call that wrote the tensor, None for a buffer that was given; `index` is the
    element's place in the tensor's shape. `elements` of all results differ.
    """

    call: int | None
    name: str
    element: int
    index: tuple[int, ...]
    claimed: dict[str, str]
    computed: dict[str, str]
    elements: int

    def to_json(self) -> "schemas.Difference":
        return cast("schemas.Difference", asdict(self) | {"index": list(self.index)})

    @property
    def words(self) -> str:
        place = f"{self.name}[{', '.join(map(str, self.index))}]"
        by = "" if self.call is None else f", which executed call {self.call} wrote"
        values = (f"{value['value']} ({value['bits']})" for value in (self.claimed, self.computed))
        return "{}{}: {} is claimed, {} was computed here".format(place, by, *values)


def first_difference(program: Program, repeat: int, claimed: Results, computed: Results) -> Difference | None:
    """That of the earliest executed call, and of its first element; None if there is none."""
    compared = (_differing(program, repeat, *one) for one in _pairs(program, claimed, computed))
    pairs = [one for one in compared if len(one[2])]
    if not pairs:
        return None
    call, result, places, (said, own) = min(pairs, key=lambda pair: -1 if pair[0] is None else pair[0])
    element, dtype = int(places[0]), program.parameter(result.buffer).dtype
    index = tuple(map(int, np.unravel_index(element, result.shape))) if result.shape else ()
    differing = sum(len(places) for _, _, places, _ in pairs)
    claim, found = (typed(dtype, int(bits[element])) for bits in (said, own))
    return Difference(call, result.name, element, index, claim, found, differing)


def _pairs(program: Program, claimed: Results, computed: Results) -> Iterator[tuple[Result, Any, Any]]:
    for results, said, own in (
        (program.outputs, claimed.outputs, computed.outputs),
        (program.new_states, claimed.states, computed.states),
    ):
        yield from ((result, said[name], own[name]) for name, result in results.items())


def _differing(
    program: Program, repeat: int, result: Result, claimed: Any, computed: Any
) -> tuple[int | None, Result, Any, tuple[Any, Any]]:
    """The elements of one result that differ, and the bits of all."""
    size, first = program.parameter(result.buffer).dtype.size, len(program.buffers)
    said, own = (np.ascontiguousarray(array).reshape(-1).view(f"u{size}") for array in (claimed, computed))
    call = None if result.buffer < first else (repeat - 1) * len(program.calls) + result.buffer - first
    return call, result, np.flatnonzero(said != own), (said, own)
