"""Who sends which box to whom, so that a worker has what it needs."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eigentensor.regions.boxes import Box, difference, overlap


class Part(NamedTuple):
    """A box that is taken from a piece of a worker."""

    worker: int
    piece: int
    box: Box


def gathered(need: Box, own: Iterable[Part], others: Sequence[Part], worker: int) -> list[Part] | None:
    """Where the elements of a box come from, each from one place: what the worker has itself first, then what others
    have, the next ones first. None if somewhere is no element of it."""
    rest, parts = [need], list[Part]()
    count = 1 + max((of.worker for of in others), default=worker)
    for of in (*own, *sorted(others, key=lambda of: (of.worker - worker) % count)):
        left = list[Box]()
        for box in rest:
            if (both := overlap(box, of.box)) is None:
                left.append(box)
            else:
                parts.append(of._replace(box=both))
                left.extend(difference(box, both))
        rest = left
    return None if rest else parts
